// Checks which lines a kernel waits for, and why.

#include "trainium/trace/stalls.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "trainium/devices.h"
#include "trainium/kernels/registry.h"
#include "trainium/kernels/shapes.h"
#include "trainium/simulator/dma.h"
#include "trainium/simulator/residency.h"
#include "trainium/trace/instruction_list.h"
#include "trainium/trace/program_trace.h"
#include "trainium/trace/simulate.h"
#include "trainium/trace/trace_writer.h"

namespace neuronmm::trace {
namespace {

using simulator::kTrn2;

struct Report {
  TraceTiming timing;
  Header header;

  double total() const { return timing.timing.summary.total_time * 1e9 - kTrn2.kernel_fixed_ns; }
  const LineReport& line(int64_t number) const {
    for (const LineReport& report : timing.lines) {
      if (header.sources[report.source].line == number) return report;
    }
    static const LineReport kNone;
    ADD_FAILURE() << "no line " << number;
    return kNone;
  }
  double waited(int64_t line_number, Cause cause) const {
    return line(line_number).waited_ns[static_cast<size_t>(cause)];
  }
  double stalled(int64_t line_number, Cause cause) const {
    return line(line_number).stalled_ns[static_cast<size_t>(cause)];
  }
  double stalled() const {
    double sum = 0;
    for (const LineReport& report : timing.lines) sum += report.stalled();
    return sum;
  }
};

Report report_of(const std::vector<std::byte>& bytes, const BufferLimits& buffer_limits = {}) {
  const auto file = TraceFile::parse(bytes, "trace");
  EXPECT_TRUE(file.ok());
  auto timing = simulate(*file, kTrn2, {.timing = {}, .buffer_limits = buffer_limits});
  EXPECT_TRUE(timing.ok()) << timing.error().message;
  return {std::move(*timing), file->header()};
}

// Returns how often a register of the Sync engine is loaded. That takes no time and is in no line.
int64_t register_loads(const std::vector<std::byte>& bytes) {
  const auto file = TraceFile::parse(bytes, "trace");
  EXPECT_TRUE(file.ok());
  const InstructionList list = list_instructions(*file);
  return std::ranges::count_if(list.instructions, [&list](const ListedInstruction& instruction) {
    return list.header.operations[instruction.operation].name == "register_load";
  });
}

// A load, an activation and a store form a chain, in which each waits for the one before it.
TEST(Stalls, AChainWaitsForDataTableAndResults) {
  TraceWriter w;
  const uint32_t x = w.input("x", "bf16", {128, 512}), y = w.output("y", "bf16", {128, 512});
  const uint32_t a = w.tensor("a", "sbuf", "bf16", {128, 512}, 10);
  const uint32_t b = w.tensor("b", "sbuf", "bf16", {128, 512}, 11);
  w.run("dma_copy", "dma", {{"dst", w.all(a)}, {"src", w.all(x)}}, 20);
  w.run("activation", "scalar", {{"dst", w.all(b)}, {"src", w.all(a)}}, 21, {{"op", "exp"}});
  w.run("dma_copy", "dma", {{"dst", w.all(y)}, {"src", w.all(b)}}, 22);
  const Report r = report_of(w.finish());
  const simulator::Transfer t{.partitions = 128, .bytes_per_partition = 1024, .chunk_bytes = 1024};
  const double trigger = kTrn2.dma_instruction_ns;
  const double transfer =
      trigger + kTrn2.dma_start_ns + simulator::engine_ns(kTrn2, t, 8) + kTrn2.dma_completion_ns;
  EXPECT_NEAR(r.waited(21, Cause::kData), transfer, 1e-3);
  EXPECT_NEAR(r.waited(21, Cause::kTable), 1280, 1e-9);
  // The kernel waits for the load until the function begins, including its table. It then waits for
  // the function until its result is visible, and for the store until the end.
  EXPECT_NEAR(r.line(20).stalled(), transfer + 1280, 1e-3);
  // A transfer begins when it has been triggered.
  EXPECT_NEAR(r.stalled(21, Cause::kDependency), (512 + 64 + 290) / 1.2 + trigger, 1e-3);
  EXPECT_NEAR(r.stalled(22, Cause::kDependency), transfer - trigger, 1e-3);
  EXPECT_NEAR(r.stalled(), r.total(), 1e-6);
  EXPECT_EQ(r.line(20).bytes, 128 * 1024);
  EXPECT_NEAR(r.line(21).busy_ns, (512 + 64) / 1.2, 1e-9);
}

// There is a single PSUM bank, so every product waits until the one before it is evicted.
TEST(Stalls, ProductsWaitForASingleBank) {
  TraceWriter w;
  const uint32_t x = w.input("x", "bf16", {128, 512});
  const uint32_t a = w.tensor("a", "sbuf", "bf16", {128, 512}, 10);
  const uint32_t out = w.tensor("out", "sbuf", "fp32", {128, 512}, 11);
  w.run("dma_copy", "dma", {{"dst", w.all(a)}, {"src", w.all(x)}}, 20);
  for (int i = 0; i < 10; ++i) {
    const uint32_t sums = w.tensor("sums", "psum", "fp32", {128, 512}, 12, 0);
    w.run("nc_matmul", "tensor",
          {{"dst", w.all(sums)}, {"stationary", w.columns(a, 0, 128)}, {"moving", w.all(a)}}, 21);
    w.run("tensor_copy", "vector", {{"dst", w.all(out)}, {"src", w.all(sums)}}, 22);
  }
  const Report r = report_of(w.finish());
  const double evict = (512 + 68) / 0.96, latency = 400 / 2.4;
  EXPECT_NEAR(r.waited(21, Cause::kBank), 9 * (evict + latency), 1e-3);
  EXPECT_NEAR(r.stalled(22, Cause::kBank), 9 * evict, 1e-3);
  EXPECT_NEAR(r.stalled(), r.total(), 1e-6);
}

// There is one slot in SBUF, so every load waits for the copy that reads the previous tile.
TEST(Stalls, LoadsWaitForASingleSlot) {
  TraceWriter w;
  const uint32_t x = w.input("x", "bf16", {128, 4096});
  const uint32_t out = w.tensor("out", "sbuf", "bf16", {128, 512}, 11);
  for (int i = 0; i < 8; ++i) {
    const uint32_t a = w.tensor("a", "sbuf", "bf16", {128, 512}, 10);
    w.run("dma_copy", "dma", {{"dst", w.all(a)}, {"src", {x, {{4096, 128}, {1, 512}}, i * 512}}},
          20);
    w.run("tensor_copy", "scalar", {{"dst", w.all(out)}, {"src", w.all(a)}}, 21);
  }
  const Report one = report_of(w.finish(), {0, {{"a", 1}}});
  EXPECT_GT(one.waited(20, Cause::kRotation), 0);
  const double wait = (512 + 64) / 1.2 + kTrn2.dma_instruction_ns;
  EXPECT_NEAR(one.stalled(21, Cause::kRotation), 7 * wait, 1e-2);
  const Report free = report_of(w.finish());
  EXPECT_EQ(free.stalled(21, Cause::kRotation), 0);
  EXPECT_EQ(free.waited(20, Cause::kRotation), 0);
}

// The stalls of all lines add up to the time of any kernel. The lines' bytes and instructions add
// up to the kernel's, except loads of registers.
TEST(Stalls, LinesAddUpToTheKernel) {
  for (const kernels::Kernel& kernel : kernels::kernels()) {
    const kernels::KernelShape shape =
        kernels::suited(kernel, {.M = 300, .K = 1000, .r = 384, .N = 1100, .s = 256});
    const auto tiling = kernels::fitting_tiling(kernel, shape, {}, {}, simulator::limits_of(kTrn2));
    if (!tiling.ok()) continue;
    const auto program = kernels::make_program(kernel, shape, *tiling, {});
    ASSERT_TRUE(program.ok());
    const std::vector<std::byte> trace = trace_of(*program);
    const Report r = report_of(trace);
    EXPECT_NEAR(r.stalled(), r.total(), 1e-6 * r.total()) << kernel.name;
    int64_t bytes = 0, instructions = 0;
    for (const LineReport& line : r.timing.lines) {
      bytes += line.bytes;
      instructions += line.instructions;
    }
    EXPECT_EQ(bytes, r.timing.timing.summary.hbm_bytes()) << kernel.name;
    EXPECT_EQ(instructions + register_loads(trace), r.timing.timing.instructions) << kernel.name;
    for (size_t i = 1; i < r.timing.lines.size(); ++i) {
      EXPECT_GE(r.timing.lines[i - 1].stalled(), r.timing.lines[i].stalled());
    }
  }
}

}  // namespace
}  // namespace neuronmm::trace
