// Checks the exact times of tiny traces, with the arithmetic written out.

#include "trainium/trace/simulate.h"

#include <gtest/gtest.h>

#include "trainium/devices.h"
#include "trainium/simulator/dma.h"
#include "trainium/trace/trace_writer.h"

namespace neuronmm::trace {
namespace {

using simulator::DeviceSpec;
using simulator::kTrn1;
using simulator::kTrn2;

Result<TraceTiming> timing_of(const TraceWriter& writer, const DeviceSpec& device,
                              const TraceOptions& options = {}) {
  const std::vector<std::byte> bytes = writer.finish();
  NMM_ASSIGN(const TraceFile file, TraceFile::parse(bytes, "k.trace"));
  return simulate(file, device, options);
}

double nanoseconds(const TraceWriter& writer, const DeviceSpec& device = kTrn2) {
  const auto timing = timing_of(writer, device);
  EXPECT_TRUE(timing.ok()) << timing.error().message;
  return timing.ok() ? timing->timing.summary.total_time * 1e9 - device.kernel_fixed_ns : 0;
}

// Returns the time of one transfer to or from 128 partitions alone, from its trigger to its
// consumer.
double transfer_ns(const DeviceSpec& d, int64_t bytes_per_partition, int64_t chunk_bytes) {
  const simulator::Transfer t{
      .partitions = 128, .bytes_per_partition = bytes_per_partition, .chunk_bytes = chunk_bytes};
  return d.dma_instruction_ns + d.dma_start_ns + simulator::engine_ns(d, t, 8) +
         d.dma_completion_ns;
}

// A kernel of operations on tiles of [128, 512].
struct TileKernel {
  TraceWriter w = TraceWriter();
  uint32_t x = w.input("x", "bf16", {128, 4096});
  uint32_t y = w.output("y", "bf16", {128, 4096});

  uint32_t tile(const char* name, int line, int64_t address = -1) {
    return w.tensor(name, "sbuf", "bf16", {128, 512}, line, address);
  }
  TraceWriter::View block(uint32_t tensor, int64_t block) const {
    return {tensor, {{4096, 128}, {1, 512}}, block * 512};
  }
  void load(uint32_t tile, int64_t from, int line) {
    w.run("dma_copy", "dma", {{"dst", w.all(tile)}, {"src", block(x, from)}}, line);
  }
  void store(uint32_t tile, int64_t to, int line) {
    w.run("dma_copy", "dma", {{"dst", block(y, to)}, {"src", w.all(tile)}}, line);
  }
  void copy(uint32_t to, uint32_t from, const char* engine, int line) {
    w.run("tensor_copy", engine, {{"dst", w.all(to)}, {"src", w.all(from)}}, line);
  }
};

TEST(Simulate, LoadCopyStoreTakesTheSumOfItsParts) {
  TileKernel k;
  const uint32_t a = k.tile("a", 10), b = k.tile("b", 11);
  k.load(a, 0, 12);
  k.copy(b, a, "vector", 13);
  k.store(b, 0, 14);
  // trn2's fourfold mode takes 128 cycles. The next copy begins 68 cycles later, and the result is
  // visible 80 cycles after that.
  const double copy = (512 / 4.0 + 68 + 80) / 0.96;
  EXPECT_NEAR(nanoseconds(k.w), transfer_ns(kTrn2, 1024, 1024) * 2 + copy, 1e-3);
  const auto timing = timing_of(k.w, kTrn2);
  EXPECT_EQ(timing->timing.summary.hbm_read_bytes, 128 * 1024);
  EXPECT_EQ(timing->timing.summary.hbm_write_bytes, 128 * 1024);
  EXPECT_EQ(timing->timing.summary.sbuf_write_bytes, 2 * 128 * 1024);
  // The kernel moves only a part of each operand, as one of several cores would. Only that part is
  // compulsory.
  EXPECT_EQ(timing->compulsory_bytes, 2 * 128 * 1024);
  EXPECT_LE(timing->bound.compulsory_ns, timing->timing.summary.total_time * 1e9);
  EXPECT_EQ(timing->sbuf.bytes, 2 * 1024);
  EXPECT_EQ(timing->timing.instructions, 3);
  EXPECT_NEAR(timing->bound.vector_ns, (512 / 4.0 + 68) / 0.96, 1e-6);
}

// The second load must wait for the copy out of the same memory.
TEST(Simulate, ATensorWaitsForTheTensorAtItsAddress) {
  const auto kernel = [](int64_t second) {
    TileKernel k;
    const uint32_t a = k.tile("a", 10, 0), out = k.tile("out", 11, 8192);
    k.load(a, 0, 12);
    k.copy(out, a, "scalar", 13);
    const uint32_t b = k.tile("b", 14, second);
    k.load(b, 1, 15);
    k.copy(out, b, "scalar", 16);
    return nanoseconds(k.w);
  };
  const double load = transfer_ns(kTrn2, 1024, 1024), copy = (512 + 64) / 1.2;
  EXPECT_NEAR(kernel(0), load + copy + load + copy + 290 / 1.2, 1e-3);
  EXPECT_NEAR(kernel(512), kernel(0), 1e-9);  // Half of an overlap is enough.
  EXPECT_LT(kernel(1024), kernel(0) - copy);
}

TEST(Simulate, TensorsInOtherPartitionsOfOneAddressDoNotWait) {
  const auto kernel = [](uint32_t partition) {
    TileKernel k;
    const uint32_t a = k.w.tensor("a", "sbuf", "bf16", {32, 512}, 10, 0, 0);
    const uint32_t b = k.w.tensor("b", "sbuf", "bf16", {32, 512}, 11, 0, partition);
    const uint32_t out = k.w.tensor("out", "sbuf", "bf16", {32, 512}, 12);
    const TraceWriter::View rows{k.x, {{4096, 32}, {1, 512}}, 0};
    k.w.run("dma_copy", "dma", {{"dst", k.w.all(a)}, {"src", rows}}, 13);
    k.copy(out, a, "scalar", 14);
    k.w.run("dma_copy", "dma", {{"dst", k.w.all(b)}, {"src", rows}}, 15);
    k.copy(out, b, "scalar", 16);
    return timing_of(k.w, kTrn2);
  };
  const auto different_partitions = kernel(32), same_partitions = kernel(0);
  ASSERT_TRUE(different_partitions.ok() && same_partitions.ok());
  EXPECT_LT(different_partitions->timing.summary.total_time,
            same_partitions->timing.summary.total_time - 1e-6);
}

// A DMA that replaces a whole tile gets memory of its own, so a tile that the kernel allocates once
// takes the time of one that it allocates per iteration. A tile with an address stays in its place.
TEST(Simulate, ATileThatIsReplacedAsAWholeDoesNotWaitForItsReaders) {
  const auto kernel = [](bool inside, int64_t address) {
    TileKernel k;
    uint32_t a = k.tile("a", 10, address);
    const uint32_t out = k.tile("out", 11, address < 0 ? -1 : 8192);
    for (int i = 0; i < 8; ++i) {
      if (inside && i > 0) a = k.tile("a", 10, address);
      k.load(a, i, 12);
      k.copy(out, a, "scalar", 13);
    }
    return nanoseconds(k.w);
  };
  EXPECT_NEAR(kernel(false, -1), kernel(true, -1), 1e-6);
  EXPECT_GT(kernel(false, 0), kernel(false, -1) + 7 * (512 + 64) / 1.2);
}

// A limit of two uses two slots, even if more memory is free. Without a limit, tensors use
// all free memory.
TEST(Simulate, ARotationLimitsHowFarLoadsRunAhead) {
  TileKernel k;
  for (int i = 0; i < 8; ++i) {
    const uint32_t in = k.tile("in", 10), out = k.tile("out", 11);
    k.load(in, i, 12);
    k.copy(out, in, "vector", 13);
    k.store(out, i, 14);
  }
  const auto one = timing_of(k.w, kTrn2, {.timing = {}, .buffer_limits = {1, {}}});
  const auto two = timing_of(k.w, kTrn2, {.timing = {}, .buffer_limits = {2, {}}});
  const auto free = timing_of(k.w, kTrn2);
  const double load = transfer_ns(kTrn2, 1024, 1024);
  const double copy = (512 / 4.0 + 68) / 0.96;
  // With one slot, each load waits for the copy before it. The stores run at the same time.
  EXPECT_GE(one->timing.summary.total_time * 1e9, 8 * (load + copy) - 1e-3);
  const double fixed = kTrn2.kernel_fixed_ns * 1e-9;
  EXPECT_LT(two->timing.summary.total_time - fixed, 0.7 * (one->timing.summary.total_time - fixed));
  EXPECT_LT(free->timing.summary.total_time, two->timing.summary.total_time);
}

// With a second core, a kernel starts and ends later, and two cores share HBM's stack: 358 GB/s
// each, less than the 386 of the DMA engines.
TEST(Simulate, ALaunchOnTwoCoresCostsMoreAndSharesTheStack) {
  const auto timing = [](const char* dialect, bool two, const DeviceSpec& device) {
    TileKernel k;
    k.w = TraceWriter(dialect, std::string(device.name));
    k.x = k.w.input("x", "bf16", {128, 4096}), k.y = k.w.output("y", "bf16", {128, 4096});
    if (two) k.w.header()["grid"] = {1, 2};
    const uint32_t tile = k.tile("tile", 10);
    k.load(tile, 0, 11);
    k.store(tile, 0, 12);
    return timing_of(k.w, device).value();
  };
  const TraceTiming one = timing("nki", false, kTrn2), two = timing("nki", true, kTrn2);
  EXPECT_EQ(one.fixed_ns, kTrn2.kernel_fixed_ns);
  EXPECT_EQ(two.fixed_ns, kTrn2.kernel_fixed_ns + 15000);
  EXPECT_GE(two.timing.summary.total_time, one.timing.summary.total_time + 15e-6);
  const double bytes = 2 * 128 * 512 * 2;
  EXPECT_NEAR(two.bound.compulsory_ns, bytes / (kTrn2.hbm_stack_bandwidth / 2), 1e-6);
  EXPECT_LT(one.bound.compulsory_ns, two.bound.compulsory_ns);
  // The grid of a legacy kernel is a loop.
  EXPECT_EQ(timing("neuronxcc", true, kTrn2).fixed_ns, kTrn2.kernel_fixed_ns);
  EXPECT_EQ(timing("nki", true, kTrn1).fixed_ns, kTrn1.kernel_fixed_ns);
}

TEST(Simulate, AGridMustBeAListOfPositiveNumbersOfCores) {
  for (const TraceWriter::Json& grid :
       {TraceWriter::Json(2), TraceWriter::Json::array(), TraceWriter::Json{0},
        TraceWriter::Json{1024, 1024}, TraceWriter::Json{"2"}, TraceWriter::Json{-1, -2}}) {
    TileKernel k;
    k.w.header()["grid"] = grid;
    const auto timing = timing_of(k.w, kTrn2);
    ASSERT_FALSE(timing.ok()) << grid;
    EXPECT_NE(timing.error().message.find("\"grid\""), std::string::npos);
  }
}

TEST(Simulate, ViewsShareTheMemoryOfTheirParent) {
  TileKernel k;
  const uint32_t a = k.tile("a", 10), out = k.tile("out", 11);
  const uint32_t words = k.w.view(a, "words", "sbuf", "i32", {128, 128}, 512, 12);
  k.load(a, 0, 13);
  // GpSimd writes the second half of `a`, so the copy of all of `a` waits for it, too.
  k.w.run("iota", "gpsimd", {{"dst", k.w.all(words)}}, 14);
  k.copy(out, a, "vector", 15);
  const double iota = (128 + 150 + 80) / 1.2;
  EXPECT_NEAR(nanoseconds(k.w),
              transfer_ns(kTrn2, 1024, 1024) + iota + (512 / 4.0 + 68 + 80) / 0.96, 1e-3);
}

// A load of data that was written to HBM waits for the store.
TEST(Simulate, LoadsOfScratchInHbmWaitForTheStore) {
  TileKernel k;
  const uint32_t scratch = k.w.tensor("scratch", "hbm", "bf16", {128, 512}, 9);
  const uint32_t a = k.tile("a", 10), b = k.tile("b", 11);
  k.load(a, 0, 12);
  k.w.run("dma_copy", "dma", {{"dst", k.w.all(scratch)}, {"src", k.w.all(a)}}, 13);
  k.w.run("dma_copy", "dma", {{"dst", k.w.all(b)}, {"src", k.w.all(scratch)}}, 14);
  EXPECT_NEAR(nanoseconds(k.w), 3 * transfer_ns(kTrn2, 1024, 1024), 1e-3);
}

// A scatter may touch any row, so a later load waits for it wherever its rows lie. The scatter's
// pattern is that of the first index and has more rows than the tensor.
TEST(Simulate, LoadsWaitForAScatterToAnyRow) {
  const auto kernel = [](bool scatter) {
    TileKernel k;
    const uint32_t table = k.w.tensor("table", "hbm", "bf16", {64, 512}, 9);
    const uint32_t index = k.w.tensor("index", "sbuf", "i32", {128, 1}, 10);
    const uint32_t a = k.tile("a", 11), b = k.w.tensor("b", "sbuf", "bf16", {8, 512}, 12);
    const TraceWriter::View rows{table, {{512, scatter ? 128 : 8}, {1, 512}}, 0};
    const TraceWriter::View last{table, {{512, 8}, {1, 512}}, 56 * 512};
    if (scatter) {
      k.w.run("dma_copy", "dma", {{"dst", rows}, {"src", k.w.all(a)}, {"index", k.w.all(index)}},
              13, {{"indirect", "dst"}});
    } else {
      k.w.run("dma_copy", "dma", {{"dst", rows}, {"src", k.w.columns(a, 0, 512, 8)}}, 13);
    }
    k.w.run("dma_copy", "dma", {{"dst", k.w.all(b)}, {"src", last}}, 14);
    return nanoseconds(k.w);
  };
  EXPECT_GT(kernel(true), 2 * (kTrn2.dma_start_ns + kTrn2.dma_completion_ns));
  EXPECT_LT(kernel(false), 2 * (kTrn2.dma_start_ns + kTrn2.dma_completion_ns));
}

// Runs four products of 32 rows each, either on four parts of the array or one after the other.
TEST(Simulate, ProductsOnDisjointPartsOfTheArrayRunAtTheSameTime) {
  const auto kernel = [](bool parts) {
    TileKernel k;
    const uint32_t a = k.tile("a", 10);
    k.load(a, 0, 11);
    for (int i = 0; i < 4; ++i) {
      const uint32_t sums = k.w.tensor("sums", "psum", "fp32", {32, 512}, 12);
      TraceWriter::Json attributes = TraceWriter::Json::object();
      if (parts) attributes = {{"tile_position", {32 * i, 0}}, {"tile_size", {32, 128}}};
      k.w.run("nc_matmul", "tensor",
              {{"dst", k.w.all(sums)},
               {"stationary", {a, {{512, 32}, {1, 32}}, 32 * i * 512}},
               {"moving", {a, {{512, 32}, {1, 512}}, 32 * i * 512}}},
              13, attributes);
    }
    return nanoseconds(k.w);
  };
  const double matmul = (512 + 10) / 2.4, weights = 32 / 4 / 2.4;
  const double loaded = transfer_ns(kTrn2, 1024, 1024), latency = 400 / 2.4;
  EXPECT_NEAR(kernel(false), loaded + weights + 4 * matmul + latency, 1e-3);
  EXPECT_NEAR(kernel(true), loaded + 4 * weights + matmul + latency, 1e-3);
}

TEST(Simulate, TheErrorOfAnSbufOverflowNamesTensorsAndLines) {
  TileKernel k;
  std::vector<uint32_t> big;
  for (int i = 0; i < 3; ++i) {
    big.push_back(k.w.tensor("big", "sbuf", "fp32", {128, 16384}, 20));  // 64 KiB
    k.w.run("memset", "any", {{"dst", k.w.all(big.back())}}, 21);
  }
  const uint32_t other = k.w.tensor("other", "sbuf", "fp32", {128, 8192}, 22);
  k.w.run("memset", "any", {{"dst", k.w.all(other)}}, 23);
  for (const uint32_t tensor : big) {
    k.w.run("activation", "scalar", {{"dst", k.w.all(tensor)}, {"src", k.w.all(tensor)}}, 24);
  }
  EXPECT_EQ(timing_of(k.w, kTrn2).error().message,
            "k.trace: SBUF needs 229376 bytes per partition at once, trn2 has 212992: big 192 KiB "
            "(3 tensors, kernel.py:20), other 32 KiB (kernel.py:22)");
  k.w.header()["alloc_fallback"] = true;
  EXPECT_NE(timing_of(k.w, kTrn2)
                .error()
                .message.find(
                    "(kernel.py:22); NKI 0.7 leaves such a kernel to the allocator of neuronx-cc"),
            std::string::npos);
}

// A legacy kernel adds to sums of 256 KiB per partition twice in turn, in blocks of 2 KiB. As many
// blocks as fit stay. Each of the others is saved after its first visit and loaded for its second.
TEST(Simulate, LegacyKernelsSpillSumsThatDoNotFit) {
  TileKernel k{TraceWriter("neuronxcc", "trn2")};
  constexpr int64_t kBlocks = 128, kColumns = 512;
  const uint32_t a = k.w.tensor("a", "sbuf", "fp32", {128, kColumns}, 10);
  const uint32_t sums = k.w.tensor("sums", "sbuf", "fp32", {128, kBlocks * kColumns}, 11);
  k.w.run("memset", "any", {{"dst", k.w.all(a)}}, 12);
  const auto block = [&](int64_t i) { return k.w.columns(sums, i * kColumns, kColumns); };
  for (int64_t i = 0; i < kBlocks; ++i) k.w.run("memset", "any", {{"dst", block(i)}}, 13);
  for (int64_t i = 0; i < kBlocks; ++i) {
    k.w.run("tensor_tensor", "vector", {{"dst", block(i)}, {"src", block(i)}, {"src1", k.w.all(a)}},
            14, {{"op", "add"}});
  }
  TraceOptions as_written;
  as_written.as_written = true;
  const auto timing = timing_of(k.w, kTrn2, as_written);
  ASSERT_TRUE(timing.ok()) << timing.error().message;
  // The blocks that fit next to `a`.
  const int64_t fitting = static_cast<int64_t>(kTrn2.sbuf_capacity()) / 2048 - 1;
  const int64_t spilled = (kBlocks - fitting) * 2048 * 128;
  EXPECT_EQ(timing->timing.summary.spill_save_bytes, spilled);
  EXPECT_EQ(timing->timing.summary.spill_reload_bytes, spilled);
  EXPECT_EQ(timing->timing.summary.hbm_bytes(), 2 * spilled);
  ASSERT_EQ(timing->timing.remedies.size(), 1u);
  EXPECT_EQ(timing->timing.remedies[0],
            "SBUF would need 264192 bytes per partition and has 212992: 7.078 MB are spilled and "
            "7.078 MB loaded again (sums 256 KiB (kernel.py:11), a 2 KiB (kernel.py:10))");
}

// A tile that came from HBM unchanged is loaded again without being saved.
TEST(Simulate, LegacyKernelsLoadUnchangedTilesAgain) {
  TileKernel k{TraceWriter("neuronxcc", "trn2")};
  constexpr int64_t kTiles = 120;
  const uint32_t x = k.w.input("big", "fp32", {128, 512 * kTiles});
  const uint32_t out = k.w.tensor("out", "sbuf", "fp32", {128, 512}, 9);
  std::vector<uint32_t> tiles;
  for (int64_t i = 0; i < kTiles; ++i) {
    tiles.push_back(k.w.tensor("tile", "sbuf", "fp32", {128, 512}, 10));
    k.w.run(
        "dma_copy", "dma",
        {{"dst", k.w.all(tiles.back())}, {"src", {x, {{512 * kTiles, 128}, {1, 512}}, i * 512}}},
        11);
  }
  for (const uint32_t tile : tiles) k.copy(out, tile, "scalar", 12);
  TraceOptions as_written;
  as_written.as_written = true;
  const auto timing = timing_of(k.w, kTrn2, as_written);
  ASSERT_TRUE(timing.ok()) << timing.error().message;
  const int64_t fitting = static_cast<int64_t>(kTrn2.sbuf_capacity()) / 2048;
  EXPECT_EQ(timing->timing.summary.spill_save_bytes, 0);
  // A slot holds `out` from the first copy on.
  EXPECT_EQ(timing->timing.summary.spill_reload_bytes, (kTiles - fitting + 1) * 2048 * 128);
  double stalled = 0;
  for (const LineReport& line : timing->lines) stalled += line.stalled();
  EXPECT_NEAR(stalled + kTrn2.kernel_fixed_ns, timing->timing.summary.total_time * 1e9, 1e-3);
}

// Simulates nine sums of `columns` fp32 that are live at the same time.
Result<TraceTiming> nine_sums(int64_t columns) {
  TileKernel k;
  const uint32_t a = k.tile("a", 10);
  k.load(a, 0, 11);
  std::vector<uint32_t> sums;
  for (int i = 0; i < 9; ++i) {
    sums.push_back(k.w.tensor("sums", "psum", "fp32", {128, columns}, 12));
    k.w.run("nc_matmul", "tensor",
            {{"dst", k.w.all(sums.back())},
             {"stationary", k.w.columns(a, 0, 128)},
             {"moving", k.w.columns(a, 0, columns)}},
            13);
  }
  for (const uint32_t tensor : sums)
    k.w.run("activation", "scalar", {{"dst", k.w.columns(a, 0, columns)}, {"src", k.w.all(tensor)}},
            14);
  return timing_of(k.w, kTrn2);
}

TEST(Simulate, APsumOverflowIsAnError) {
  EXPECT_EQ(nine_sums(512).error().message,
            "k.trace: PSUM needs 18432 bytes per partition at once, trn2 has 16384: sums 18 KiB (9 "
            "tensors, kernel.py:12)");
}

// Small sums share banks if there are not enough banks.
TEST(Simulate, SmallSumsShareBanks) {
  const auto timing = nine_sums(16);
  ASSERT_TRUE(timing.ok()) << timing.error().message;
  EXPECT_EQ(timing->psum.bytes, 9 * 64);
}

// GpSimd writes the descriptors of gathers, one transfer after the other.
TEST(Simulate, GathersWaitForTheirDescriptors) {
  const auto kernel = [](bool gather) {
    TileKernel k;
    const uint32_t index = k.w.tensor("index", "sbuf", "i32", {128, 1}, 10);
    for (int i = 0; i < 20; ++i) {
      const uint32_t a = k.tile("a", 11);
      if (gather) {
        k.w.run("dma_copy", "dma",
                {{"dst", k.w.all(a)}, {"src", k.block(k.x, 0)}, {"index", k.w.all(index)}}, 12,
                {{"indirect", "src"}});
      } else {
        k.load(a, 0, 12);
      }
    }
    return nanoseconds(k.w);
  };
  // GpSimd writes the descriptors in place of the hardware.
  const double last = transfer_ns(kTrn2, 1024, 1024) - kTrn2.dma_instruction_ns;
  EXPECT_GE(kernel(true), 20 * kTrn2.dma_software_ns + last - 1e-3);
  EXPECT_LT(kernel(false), 10 * kTrn2.dma_software_ns);
}

// `indirect` may name several roles. An instruction then waits for everything that either operand
// may touch.
TEST(Simulate, SeveralOperandsMayHaveRunTimePlaces) {
  const auto kernel = [](const char* roles) {
    TileKernel k;
    const uint32_t index = k.w.tensor("index", "sbuf", "i32", {128, 1}, 10);
    const uint32_t a = k.tile("a", 11), b = k.tile("b", 12), c = k.tile("c", 13);
    k.load(a, 0, 14);
    TraceWriter::Json attributes = TraceWriter::Json::object();
    attributes["indirect"] = roles;
    const auto first = [&](uint32_t t) { return TraceWriter::View{t, {{512, 128}, {0, 16}}, 0}; };
    k.w.run("tensor_copy", "gpsimd",
            {{"dst", first(b)}, {"src", first(a)}, {"index", k.w.all(index)}}, 15, attributes);
    k.w.run("tensor_copy", "vector",
            {{"dst", k.w.columns(c, 0, 16)}, {"src", k.w.columns(b, 256, 16)}}, 16);
    return nanoseconds(k.w);
  };
  EXPECT_GT(kernel("src dst"), kernel("src"));
}

TEST(Simulate, AddressesOutsideFailAndOverlapsAreNoted) {
  TileKernel outside;
  outside.load(outside.tile("a", 10, 224 * 1024 - 512), 0, 11);
  EXPECT_EQ(timing_of(outside.w, kTrn2).error().message,
            "k.trace: kernel.py:10: a: bytes 228864 to 229888 of a partition, which has 229376 on "
            "trn2");
  TileKernel overlap;
  const uint32_t a = overlap.tile("a", 10, 0), b = overlap.tile("b", 11, 512);
  overlap.load(a, 0, 12);
  overlap.load(b, 1, 13);
  overlap.copy(b, a, "vector", 14);
  const auto timing = timing_of(overlap.w, kTrn2);
  ASSERT_TRUE(timing.ok());
  ASSERT_EQ(timing->notes.size(), 1u);
  EXPECT_EQ(timing->notes[0], "b (kernel.py:11) lies on memory that is still in use");
}

// A tensor without an address avoids the place that a later tensor with an address takes.
TEST(Simulate, TensorsAvoidThePlacesOfLaterAddresses) {
  TileKernel k;
  const uint32_t loose = k.tile("loose", 10);
  k.load(loose, 0, 11);
  const uint32_t fixed = k.tile("fixed", 12, 0);
  k.load(fixed, 1, 13);
  k.copy(fixed, loose, "vector", 14);
  const auto timing = timing_of(k.w, kTrn2);
  ASSERT_TRUE(timing.ok());
  EXPECT_TRUE(timing->notes.empty());
}

// On trn1, Vector and Scalar cannot use PSUM at the same time.
TEST(Simulate, EvictionsOverlapOnTrn2ButNotOnTrn1) {
  TileKernel k;
  const uint32_t a = k.tile("a", 10), b = k.tile("b", 11), c = k.tile("c", 12);
  k.load(a, 0, 13);
  const uint32_t sums = k.w.tensor("sums", "psum", "fp32", {128, 512}, 14);
  k.w.run("nc_matmul", "tensor",
          {{"dst", k.w.all(sums)}, {"stationary", k.w.columns(a, 0, 128)}, {"moving", k.w.all(a)}},
          15);
  k.copy(b, sums, "vector", 16);
  k.copy(c, sums, "scalar", 17);
  const auto evicted = [](const DeviceSpec& d) {
    return std::pair((512 + 68) / d.vector_ghz, (512 + 64 + 290) / d.scalar_ghz);
  };
  const double matmul1 = 128 / 4 / 2.8 + 512 / 2.8 * 7 / 6 + 400 / 2.8;
  EXPECT_NEAR(
      nanoseconds(k.w, kTrn1),
      transfer_ns(kTrn1, 1024, 1024) + matmul1 + evicted(kTrn1).first + evicted(kTrn1).second,
      1e-3);
  const double matmul2 = 128 / 4 / 2.4 + (512 + 10) / 2.4 + 400 / 2.4;
  EXPECT_NEAR(nanoseconds(k.w, kTrn2),
              transfer_ns(kTrn2, 1024, 1024) + matmul2 +
                  std::max(evicted(kTrn2).first + 80 / 0.96, evicted(kTrn2).second),
              1e-3);
}

// The source reads partition 64 for each of the 128 rows. The engines share the rows as they share
// those of a whole tile.
TEST(Simulate, AStoreMayRepeatAPartition) {
  TileKernel whole, repeated;
  for (TileKernel* k : {&whole, &repeated}) k->load(k->tile("a", 10), 0, 11);
  const uint32_t a = 2;
  whole.store(a, 0, 12);
  repeated.w.run(
      "dma_copy", "dma",
      {{"dst", repeated.block(repeated.y, 0)}, {"src", {a, {{0, 128}, {1, 512}}, 64 * 512}}}, 12);
  EXPECT_NEAR(nanoseconds(repeated.w), nanoseconds(whole.w), 1e-3);
}

TEST(Simulate, ErrorsOfAnInstructionNameItsLine) {
  TileKernel k;
  k.w.run("tensor_copy", "any", {{"dst", k.w.all(k.tile("a", 10))}, {"src", k.block(k.x, 0)}}, 42);
  EXPECT_EQ(timing_of(k.w, kTrn2).error().message,
            "k.trace: kernel.py:42: tensor_copy: operand src lies in HBM, where no engine but DMA "
            "reaches");
}

TEST(Simulate, TheTimelineHasAnEventPerInstruction) {
  TileKernel k;
  const uint32_t a = k.tile("a", 10), b = k.tile("b", 11);
  k.load(a, 0, 12);
  k.copy(b, a, "vector", 13);
  simulator::Timeline timeline;
  ASSERT_TRUE(timing_of(k.w, kTrn2, {.timing = {.timeline = &timeline}, .buffer_limits = {}}).ok());
  EXPECT_EQ(timeline.total(), 2);
  EXPECT_NE(timeline.json("k", "trn2").find("tensor_copy kernel.py:13"), std::string::npos);
}

}  // namespace
}  // namespace neuronmm::trace
