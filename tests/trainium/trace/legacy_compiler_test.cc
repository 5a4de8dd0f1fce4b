// Checks what the legacy compiler's passes must never do: break a dependence, or lose or add an
// element. The tests run a trace on a memory of single elements. They use no cells, patterns or
// other code of the passes.

#include "trainium/trace/legacy_compiler.h"

#include <array>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "trainium/devices.h"
#include "trainium/trace/dependences.h"
#include "trainium/trace/list_schedule.h"
#include "trainium/trace/live_memory.h"
#include "trainium/trace/simulate.h"
#include "trainium/trace/trace_writer.h"
#include "trainium/trace/vectorize.h"

namespace neuronmm::trace {
namespace {

using simulator::kTrn1;

// Returns the elements of an operand, in the order in which the pattern visits them.
std::vector<int64_t> elements(const InstructionList& list, const OperandRecord& operand) {
  std::vector<int64_t> found = {operand.offset};
  for (const Axis& axis : list.header.patterns[operand.pattern].axes) {
    std::vector<int64_t> next;
    for (const int64_t base : found) {
      for (int64_t i = 0; i < axis.count; ++i) next.push_back(base + i * axis.stride);
    }
    found = std::move(next);
  }
  return found;
}

using TensorElement = std::pair<uint32_t, int64_t>;  // A tensor and an element of it.

// Returns the pairs of instructions that touch a common element, at least one of them writing. Such
// a pair must keep its order.
std::set<std::pair<uint32_t, uint32_t>> conflicts(const InstructionList& list) {
  std::set<std::pair<uint32_t, uint32_t>> found;
  std::map<TensorElement, std::vector<std::pair<uint32_t, bool>>> touched;
  for (uint32_t at = 0; at < list.instructions.size(); ++at) {
    const Operation& operation = list.operation(list.instructions[at]);
    const auto operands = list.operands_of(list.instructions[at]);
    for (size_t o = 0; o < operands.size(); ++o) {
      const std::vector<int64_t> at_all = elements(list, operands[o]);
      for (const int64_t element : std::set<int64_t>(at_all.begin(), at_all.end())) {
        auto& before = touched[{operands[o].instance, element}];
        for (const auto& [other, writes] : before) {
          if (other != at && (writes || operation.writes[o])) found.emplace(other, at);
        }
        before.emplace_back(at, operation.writes[o]);
      }
    }
  }
  return found;
}

// Returns a program of copies, sums and loads between tiles of [8, 16] at random places.
TraceWriter random_program(std::mt19937& random, int instructions) {
  TraceWriter w("neuronxcc", "trn1");
  const auto below = [&](int64_t n) {
    return std::uniform_int_distribution<int64_t>(0, n - 1)(random);
  };
  const uint32_t x = w.input("x", "fp32", {8, 64});
  const uint32_t y = w.output("y", "fp32", {8, 64});
  std::vector<uint32_t> tiles;
  for (int i = 0; i < 10; ++i) {
    tiles.push_back(w.tensor("t" + std::to_string(i % 3), i % 4 == 3 ? "psum" : "sbuf", "fp32",
                             {8, 16}, 10 + i));
  }
  const auto tile = [&] { return tiles[static_cast<size_t>(below(10))]; };
  const auto sbuf_tile = [&] { return tiles[static_cast<size_t>(below(3))]; };
  for (const uint32_t t : tiles) w.run("memset", "any", {{"dst", w.all(t)}}, 9);
  for (int i = 0; i < instructions; ++i) {
    const int64_t first = below(12), count = 1 + below(4);
    const auto part = [&](uint32_t t) { return w.columns(t, first, count); };
    const TraceWriter::View row = {x, {{64, 8}, {1, count}}, below(60)};
    switch (below(5)) {
      case 0:
        w.run("dma_copy", "dma", {{"dst", part(sbuf_tile())}, {"src", row}}, 20);
        break;
      case 1:
        w.run("dma_copy", "dma",
              {{"dst", {y, {{64, 8}, {1, count}}, below(60)}}, {"src", part(sbuf_tile())}}, 21);
        break;
      case 2:
        w.run("tensor_copy", "any", {{"dst", part(tile())}, {"src", part(tile())}}, 22);
        break;
      case 3:
        w.run("activation", "scalar", {{"dst", part(tile())}, {"src", part(tile())}}, 23,
              {{"op", "exp"}});
        break;
      default:
        w.run("tensor_tensor", "vector",
              {{"dst", part(tile())}, {"src", part(tile())}, {"src1", part(sbuf_tile())}}, 24,
              {{"op", "add"}});
    }
  }
  return w;
}

TEST(LegacyCompiler, SchedulesKeepTheOrderOfConflictingInstructions) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const std::vector<std::byte> bytes = random_program(random, 120).finish();
    const auto file = TraceFile::parse(bytes, "random.trace");
    ASSERT_TRUE(file.ok()) << file.error().message;
    const auto contents = check_contents(*file);
    ASSERT_TRUE(contents.ok()) << contents.error().message;
    const InstructionList list = list_instructions(*file);
    const ScheduleOptions options{.window = 1 + seed * 7 % 200};
    const auto order = list_schedule(list, *contents, kTrn1, options);
    ASSERT_TRUE(order.ok()) << order.error().message;
    std::vector<size_t> position(list.instructions.size(), SIZE_MAX);
    for (size_t i = 0; i < order->size(); ++i) position[(*order)[i]] = i;
    ASSERT_EQ(order->size(), list.instructions.size());
    EXPECT_EQ(std::count(position.begin(), position.end(), SIZE_MAX), 0);
    size_t kept = 0;
    for (const auto& [first, second] : conflicts(list)) {
      kept += position[first] < position[second] ? 1 : 0;
    }
    EXPECT_EQ(kept, conflicts(list).size());
    // The schedule differs from the program's order unless the window is one instruction.
    const bool same = std::is_sorted(order->begin(), order->end());
    EXPECT_EQ(same, options.window == 1);
  }
}

// A loop over slices. Each iteration computes a function of a slice into a tile of its own, and
// adds it to a slice of another tensor.
struct SliceLoop {
  static constexpr int64_t kPartitions = 4;
  int64_t iterations, columns;
  bool carried;  // An iteration reads what the previous one has written.
  TraceWriter w{"neuronxcc", "trn1"};

  SliceLoop(int64_t n, int64_t width, bool depends)
      : iterations(n), columns(width), carried(depends) {
    const int64_t all = (n + 1) * width;
    const uint32_t x = w.input("x", "fp32", {kPartitions, all});
    const uint32_t y = w.output("y", "fp32", {kPartitions, all});
    const uint32_t a = w.tensor("a", "sbuf", "fp32", {kPartitions, all}, 1);
    const uint32_t b = w.tensor("b", "sbuf", "fp32", {kPartitions, all}, 2);
    w.run("dma_copy", "dma", {{"dst", w.all(a)}, {"src", whole(x, all)}}, 3);
    w.run("memset", "any", {{"dst", w.all(b)}}, 4);
    w.header()["loops"].push_back(
        {{"name", "i"}, {"kind", "affine"}, {"count", iterations}, {"source", 0}});
    w.loop(3, 0, 5);
    for (int64_t i = 0; i < iterations; ++i) {
      w.loop(4, 0, 5);
      const uint32_t t = w.tensor("t", "sbuf", "fp32", {kPartitions, width}, 6);
      w.run("activation", "scalar", {{"dst", w.all(t)}, {"src", w.columns(a, i * width, width)}}, 6,
            {{"op", "exp"}});
      const int64_t to = carried ? i + 1 : i;
      w.run("tensor_tensor", "vector",
            {{"dst", w.columns(b, to * width, width)},
             {"src", w.all(t)},
             {"src1", w.columns(b, i * width, width)}},
            7, {{"op", "add"}});
    }
    w.loop(5, 0, 5);
    w.run("dma_copy", "dma", {{"dst", whole(y, all)}, {"src", w.all(b)}}, 8);
  }
  static TraceWriter::View whole(uint32_t tensor, int64_t all) {
    return {tensor, {{all, kPartitions}, {1, all}}, 0};
  }
};

// Runs a trace symbolically. The value of an element is the text of the expression that computes
// it, whatever tiles it passes. Equal texts in the output mean that the same was computed.
std::map<TensorElement, std::string> values(const InstructionList& list) {
  std::map<TensorElement, std::string> memory;
  for (const ListedInstruction& instruction : list.instructions) {
    const Operation& operation = list.operation(instruction);
    const auto operands = list.operands_of(instruction);
    std::vector<std::string> results;
    const auto to = elements(list, operands[0]);
    results.assign(to.size(), operation.name + operation.op + "(");
    for (size_t o = 1; o < operands.size(); ++o) {
      const auto from = elements(list, operands[o]);
      EXPECT_EQ(from.size(), to.size());
      for (size_t e = 0; e < from.size() && e < to.size(); ++e) {
        const auto at = memory.find({operands[o].instance, from[e]});
        results[e] += (at == memory.end() ? "in" + std::to_string(from[e]) : at->second) + ",";
      }
    }
    for (size_t e = 0; e < to.size(); ++e) memory[{operands[0].instance, to[e]}] = results[e] + ")";
  }
  return memory;
}

std::vector<std::string> output(const InstructionList& list, uint32_t tensor) {
  std::vector<std::string> found;
  for (const auto& [element, value] : values(list)) {
    if (element.first == tensor) found.push_back(value);
  }
  return found;
}

TEST(LegacyCompiler, MergedInstructionsComputeTheSame) {
  for (const int64_t iterations : {2, 3, 16, 64}) {
    for (const int64_t columns : {1, 2, 8}) {
      for (const bool carried : {false, true}) {
        SCOPED_TRACE(testing::Message() << iterations << " x " << columns << " " << carried);
        const SliceLoop loop(iterations, columns, carried);
        const std::vector<std::byte> bytes = loop.w.finish();
        const auto file = TraceFile::parse(bytes, "loop.trace");
        ASSERT_TRUE(file.ok()) << file.error().message;
        const auto contents = check_contents(*file);
        ASSERT_TRUE(contents.ok()) << contents.error().message;
        const InstructionList before = list_instructions(*file);
        InstructionList after = before;
        const int64_t num_removed = vectorize(after, *contents);
        // The activations become one instruction in any case. The sums become one if no iteration
        // reads another's result. A tile of all iterations has at most 512 elements per partition.
        ASSERT_LE(iterations * columns, 512);
        EXPECT_EQ(num_removed, (iterations - 1) * (carried ? 1 : 2));
        EXPECT_EQ(output(after, 1), output(before, 1));
        EXPECT_EQ(output(after, 1).size(),
                  static_cast<size_t>(SliceLoop::kPartitions * (iterations + 1) * columns));
        const TraceFile merged = to_trace(after);
        const auto checked = check_contents(merged);
        EXPECT_TRUE(checked.ok()) << checked.error().message;
      }
    }
  }
}

TEST(LegacyCompiler, LoopsWhoseMergedTilesWouldBeTooLargeStay) {
  const SliceLoop loop(65, 8, false);
  const std::vector<std::byte> bytes = loop.w.finish();
  const auto file = TraceFile::parse(bytes, "loop.trace");
  const auto contents = check_contents(*file);
  InstructionList list = list_instructions(*file);
  EXPECT_EQ(vectorize(list, *contents), 0);
}

// A line may have an optional operand in some iterations only.
TEST(LegacyCompiler, LoopsWhoseCallsHaveOtherOperandsStay) {
  TraceWriter w("neuronxcc", "trn1");
  const uint32_t a = w.tensor("a", "sbuf", "fp32", {128, 64}, 1);
  const uint32_t b = w.tensor("b", "sbuf", "fp32", {128, 64}, 2);
  const uint32_t c = w.tensor("c", "sbuf", "fp32", {128, 1}, 3);
  for (const uint32_t tile : {a, c}) w.run("memset", "any", {{"dst", w.all(tile)}}, 4);
  w.header()["loops"].push_back({{"name", "i"}, {"kind", "affine"}, {"count", 4}, {"source", 0}});
  w.loop(3, 0, 5);
  for (int64_t i = 0; i < 4; ++i) {
    w.loop(4, 0, 5);
    std::vector<std::pair<std::string, TraceWriter::View>> operands = {
        {"dst", w.columns(b, 16 * i, 16)}, {"src", w.columns(a, 16 * i, 16)}};
    if (i == 0) operands.emplace_back("scalar0", w.all(c));
    w.run("tensor_scalar", "vector", operands, 6, {{"op0", "add"}});
  }
  w.loop(5, 0, 5);
  const std::vector<std::byte> bytes = w.finish();
  const auto file = TraceFile::parse(bytes, "loop.trace");
  const auto contents = check_contents(*file);
  ASSERT_TRUE(contents.ok()) << contents.error().message;
  InstructionList list = list_instructions(*file);
  EXPECT_EQ(vectorize(list, *contents), 0);
}

TEST(LegacyCompiler, AFillWithoutADestinationIsAnError) {
  TraceWriter w("neuronxcc", "trn1");
  w.run("memset", "any", {}, 4);
  const std::vector<std::byte> bytes = w.finish();
  const auto timing = simulate(*TraceFile::parse(bytes, "fill.trace"), kTrn1);
  ASSERT_FALSE(timing.ok());
  EXPECT_EQ(timing.error().message, "fill.trace: kernel.py:4: memset: operand dst is missing");
}

// The fill is not made smaller, although a half of it is written over before it is read.
TEST(LegacyCompiler, AFillWithAnotherOperandStays) {
  TraceWriter w("neuronxcc", "trn1");
  const uint32_t y = w.output("y", "fp32", {128, 512});
  const uint32_t a = w.tensor("a", "sbuf", "fp32", {128, 512}, 1);
  const uint32_t b = w.tensor("b", "sbuf", "fp32", {128, 1}, 2);
  w.run("memset", "any", {{"dst", w.all(b)}}, 3);
  w.run("memset", "any", {{"dst", w.all(a)}, {"scalar0", w.all(b)}}, 4);
  w.run("memset", "any", {{"dst", w.columns(a, 0, 256)}}, 5);
  w.run("dma_copy", "dma", {{"dst", w.all(y)}, {"src", w.all(a)}}, 6);
  const std::vector<std::byte> bytes = w.finish();
  const auto timing = simulate(*TraceFile::parse(bytes, "fill.trace"), kTrn1);
  ASSERT_TRUE(timing.ok()) << timing.error().message;
  EXPECT_EQ(timing->timing.instructions, 4);
}

// Runs all passes and checks that the output is computed from the same inputs in the same way.
void expect_same_output(const TraceFile& file) {
  auto contents = check_contents(file);
  ASSERT_TRUE(contents.ok()) << contents.error().message;
  const auto compiled = compile_legacy(file, std::move(*contents), kTrn1);
  ASSERT_TRUE(compiled.ok()) << compiled.error().message;
  const auto checked = check_contents(compiled->file);
  EXPECT_TRUE(checked.ok()) << checked.error().message;
  const std::vector<std::string> expected = output(list_instructions(file), 1);
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(output(list_instructions(compiled->file), 1), expected);
}

TEST(LegacyCompiler, CompiledTracesComputeTheSame) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const std::vector<std::byte> bytes = random_program(random, 60).finish();
    expect_same_output(*TraceFile::parse(bytes, "random.trace"));
  }
  for (const bool carried : {false, true}) {
    const std::vector<std::byte> bytes = SliceLoop(16, 8, carried).w.finish();
    expect_same_output(*TraceFile::parse(bytes, "loop.trace"));
  }
}

// A compiled trace writes the same bytes and reads no more. It has no more instructions and fits
// into memory.
TEST(LegacyCompiler, CompiledTracesFitAndMoveNoMoreBytes) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const std::vector<std::byte> bytes = random_program(random, 200).finish();
    const auto file = TraceFile::parse(bytes, "random.trace");
    ASSERT_TRUE(file.ok()) << file.error().message;
    TraceOptions as_written;
    as_written.as_written = true;
    const auto before = simulate(*file, kTrn1, as_written);
    const auto after = simulate(*file, kTrn1);
    ASSERT_TRUE(before.ok()) << before.error().message;
    ASSERT_TRUE(after.ok()) << after.error().message;
    EXPECT_EQ(after->timing.summary.hbm_write_bytes, before->timing.summary.hbm_write_bytes);
    EXPECT_LE(after->timing.summary.hbm_read_bytes, before->timing.summary.hbm_read_bytes);
    EXPECT_LE(after->timing.instructions, before->timing.instructions);
    EXPECT_LE(after->psum.bytes, after->psum.capacity);
    EXPECT_LE(after->sbuf.bytes, after->sbuf.capacity);
  }
}

}  // namespace
}  // namespace neuronmm::trace
