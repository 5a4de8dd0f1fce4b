// Checks the memory in use over time of tiny traces, with the arithmetic written out.

#include "trainium/trace/memory_counters.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trainium/devices.h"
#include "trainium/simulator/dma.h"
#include "trainium/trace/simulate.h"
#include "trainium/trace/trace_writer.h"

namespace neuronmm::trace {
namespace {

using simulator::Counter;
using simulator::kTrn2;

constexpr int64_t kTile = 1024;  // Bytes per partition of a bf16 tile [128, 512].

struct CountedKernel {
  TraceWriter w = TraceWriter();
  uint32_t x = w.input("x", "bf16", {128, 4096});
  uint32_t y = w.output("y", "bf16", {128, 4096});
  simulator::Timeline timeline = simulator::Timeline();
  TraceTiming timing = {};

  uint32_t tile(const char* name) { return w.tensor(name, "sbuf", "bf16", {128, 512}, 10); }
  TraceWriter::View block(uint32_t tensor, int64_t number) const {
    return {tensor, {{4096, 128}, {1, 512}}, number * 512};
  }
  void load(uint32_t to, int64_t from) {
    w.run("dma_copy", "dma", {{"dst", w.all(to)}, {"src", block(x, from)}}, 20);
  }
  void store(uint32_t from) {
    w.run("dma_copy", "dma", {{"dst", block(y, 0)}, {"src", w.all(from)}}, 22);
  }
  void copy(uint32_t to, uint32_t from) {
    w.run("tensor_copy", "vector", {{"dst", w.all(to)}, {"src", w.all(from)}}, 21);
  }
  void add(uint32_t to, uint32_t a, uint32_t b) {
    w.run("tensor_tensor", "vector", {{"dst", w.all(to)}, {"data1", w.all(a)}, {"data2", w.all(b)}},
          23, {{"op", "add"}});
  }
  // Simulates the kernel once.
  void simulate(const BufferLimits& limits = {}) {
    const std::vector<std::byte> bytes = w.finish();
    const auto file = TraceFile::parse(bytes, "k.trace");
    ASSERT_TRUE(file.ok()) << file.error().message;
    TraceOptions options{.timing = {.timeline = &timeline}, .buffer_limits = limits};
    auto simulated = trace::simulate(*file, kTrn2, options);
    ASSERT_TRUE(simulated.ok()) << simulated.error().message;
    timing = std::move(*simulated);
  }
  const Counter& counter(const std::string& name) const {
    for (const Counter& each : timeline.counters()) {
      if (each.name() == name) return each;
    }
    static const Counter kNone("", "", 0);
    ADD_FAILURE() << "no counter " << name;
    return kNone;
  }
};

TEST(MemoryCounters, ATensorCountsFromItsFirstAccessToItsLast) {
  CountedKernel k;
  const uint32_t a = k.tile("a"), b = k.tile("b");
  k.load(a, 0);
  k.copy(b, a);
  k.store(b);
  k.simulate();
  const simulator::Transfer t{
      .partitions = 128, .bytes_per_partition = kTile, .chunk_bytes = kTile};
  const double trigger = kTrn2.dma_instruction_ns;
  const double moved = kTrn2.dma_start_ns + simulator::engine_ns(kTrn2, t, 8);
  const double copied = trigger + moved + kTrn2.dma_completion_ns;
  const double interval = (512 / 4.0 + 68) / 0.96, latency = 80 / 0.96;
  const std::vector<Counter::Step> steps = k.counter("SBUF").steps();
  ASSERT_EQ(steps.size(), 5u);
  const double times[] = {0, trigger, copied, copied + interval,
                          copied + interval + latency + trigger + moved};
  const int64_t values[] = {0, kTile, 2 * kTile, kTile, 0};
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_NEAR(steps[i].ns, times[i], 0.1) << i;
    EXPECT_EQ(steps[i].value, values[i]) << i;
  }
  EXPECT_EQ(k.counter("SBUF").capacity(), kTrn2.sbuf_usable_bytes.value);
}

// The last instruction needs all tensors, so that they are in use at once both in time and in the
// program's order.
TEST(MemoryCounters, TheMostIsThatOfTheReport) {
  CountedKernel k;
  const uint32_t a = k.tile("a"), b = k.tile("b"), sum = k.tile("sum");
  uint32_t products[2];
  k.load(a, 0);
  k.load(b, 1);
  for (uint32_t& product : products) {
    // 1,000 bytes take a whole bank.
    product = k.w.tensor("product", "psum", "fp32", {128, 250}, 11);
    k.w.run("nc_matmul", "tensor",
            {{"dst", k.w.all(product)},
             {"stationary", k.w.columns(a, 0, 128)},
             {"moving", k.w.columns(b, 0, 250)}},
            24);
  }
  k.w.run("tensor_tensor", "vector",
          {{"dst", k.w.columns(sum, 0, 250)},
           {"data1", k.w.all(products[0])},
           {"data2", k.w.all(products[1])}},
          25, {{"op", "add"}});
  k.add(sum, a, b);
  k.store(sum);
  k.simulate();
  EXPECT_EQ(k.timing.sbuf.bytes, 3 * kTile);
  EXPECT_EQ(k.counter("SBUF").most(), k.timing.sbuf.bytes);
  EXPECT_EQ(k.timing.psum.bytes, 2 * kTrn2.psum_bank_bytes);
  EXPECT_EQ(k.counter("PSUM").most(), k.timing.psum.bytes);
}

// In time, loads run ahead of the copies that they follow in the program.
TEST(MemoryCounters, LoadsThatRunAheadTakeMoreThanInTheOrderOfTheProgram) {
  const auto run = [](CountedKernel& k, const BufferLimits& limits) {
    const uint32_t out = k.tile("out");
    for (int i = 0; i < 8; ++i) {
      const uint32_t in = k.tile("in");
      k.load(in, i);
      k.copy(out, in);
    }
    k.simulate(limits);
    EXPECT_EQ(k.timing.sbuf.bytes, 2 * kTile);
  };
  CountedKernel free, one;
  run(free, {});
  run(one, {0, {{"in", 1}}});
  EXPECT_GT(free.counter("SBUF").most(), free.timing.sbuf.bytes);
  EXPECT_EQ(one.counter("SBUF").most(), one.timing.sbuf.bytes);
}

TEST(MemoryCounters, ContentThatADmaReplacesCountsAsAnotherTensor) {
  CountedKernel k;
  const uint32_t a = k.tile("a"), out = k.tile("out");
  for (int i = 0; i < 8; ++i) {
    k.load(a, i);
    k.copy(out, a);
  }
  k.simulate();
  EXPECT_EQ(k.timing.sbuf.bytes, 2 * kTile);
  EXPECT_GT(k.counter("SBUF").most(), k.timing.sbuf.bytes);
  EXPECT_LE(k.counter("SBUF").most(), 9 * kTile);
}

// The events of the trace for Perfetto say when each transfer is in flight.
TEST(MemoryCounters, TransfersInFlightAreThoseOfTheEvents) {
  CountedKernel k;
  const uint32_t out = k.w.tensor("out", "sbuf", "bf16", {128, 4096}, 12);
  for (int i = 0; i < 100; ++i) {
    const uint32_t in = k.w.tensor("in", "sbuf", "bf16", {128, 4096}, 10);
    k.w.run("dma_copy", "dma", {{"dst", k.w.all(in)}, {"src", k.w.all(k.x)}}, 20);
    k.copy(out, in);
  }
  k.simulate();
  const auto json = nlohmann::json::parse(k.timeline.json("k", "trn2"));
  std::map<double, int> changes;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] != "X" || event["tid"] < 4) continue;
    const double begin = event["ts"], duration = event["dur"];
    // Times in the file are rounded to 0.1 ns.
    changes[std::round(begin * 1e4)] += 1;
    changes[std::round((begin + duration) * 1e4)] -= 1;
  }
  int now = 0, most = 0;
  for (const auto& [time, change] : changes) most = std::max(most, now += change);
  EXPECT_GT(most, 8);
  EXPECT_EQ(k.counter("DMA").most(), most);
  EXPECT_LE(most, k.counter("DMA").capacity());
}

}  // namespace
}  // namespace neuronmm::trace
