// Checks the exact times of tiny programs, with the arithmetic written out, and properties of all
// programs.

#include "trainium/simulator/timing.h"

#include <chrono>
#include <random>

#include <gtest/gtest.h>

#include "trainium/devices.h"
#include "trainium/kernels/matmul.h"
#include "trainium/kernels/registry.h"
#include "trainium/kernels/shapes.h"
#include "trainium/kernels/xuv.h"
#include "trainium/tile/builder.h"
#include "trainium/tile/counts.h"

namespace neuronmm::simulator {
namespace {

using kernels::Kernel;
using kernels::KernelOptions;
using kernels::KernelShape;
using tile::all;
using tile::at;
using tile::BufferId;
using tile::Builder;
using tile::Program;
using tile::Tile;
using tile::upto;

double nanoseconds(const Program& program, const DeviceSpec& device,
                   const TimingOptions& options = {}) {
  const auto timing = simulate(program, device, options);
  EXPECT_TRUE(timing.ok()) << timing.error().message;
  return timing.ok() ? timing->summary.total_time * 1e9 : 0;
}

// Tiles of a matmul's operands in SBUF: stationary [128, 128] and moving [128, columns].
struct Operands {
  BufferId x, w;
};
Operands load_operands(Builder& b, DType dtype, int64_t columns) {
  const BufferId x_hbm = b.input("x", dtype, {128, 128}),
                 w_hbm = b.input("w", dtype, {128, columns});
  const Operands o{b.sbuf("x_tile", dtype, {128, 128}), b.sbuf("w_tile", dtype, {128, columns})};
  b.load(at(o.x, {all(128), all(128)}), at(x_hbm, {all(128), all(128)}));
  b.load(at(o.w, {all(128), all(columns)}), at(w_hbm, {all(128), all(columns)}));
  return o;
}

Program one_matmul() {
  Builder b("one_matmul");
  const auto [x, w] = load_operands(b, DType::kBF16, 512);
  const BufferId y = b.output("y", DType::kBF16, {128, 512});
  const BufferId sums = b.psum("sums", {128, 512}, 1);
  b.matmul(at(sums, {all(128), all(512)}), at(x, {all(128), all(128)}), at(w, {all(128), all(512)}),
           {});
  const BufferId y_tile = b.sbuf("y_tile", DType::kBF16, {128, 512});
  b.copy(at(y_tile, {all(128), all(512)}), at(sums, {all(128), all(512)}));
  b.store(at(y, {all(128), all(512)}), at(y_tile, {all(128), all(512)}));
  return b.finish();
}

// Returns a program of `count` matmuls that accumulate into one result.
Program chain(int64_t count, DType dtype, int64_t columns) {
  Builder b("chain");
  const auto [x, w] = load_operands(b, dtype, columns);
  const BufferId sums = b.psum("sums", {128, 512}, 1);
  b.loop("i", count, 1, [&, x = x, w = w](const Tile& i) {
    b.matmul(at(sums, {all(128), all(columns)}), at(x, {all(128), all(128)}),
             at(w, {all(128), all(columns)}), {i});
  });
  return b.finish();
}

// Returns the cost of one more matmul of a chain.
double chain_interval(const DeviceSpec& device, DType dtype, int64_t columns) {
  return (nanoseconds(chain(150, dtype, columns), device) -
          nanoseconds(chain(50, dtype, columns), device)) /
         100;
}

TEST(Timing, LoadMultiplyEvictStoreTakesTheSumOfItsParts) {
  // An engine moves 8 rows of 1024 B of w.
  const double w_ns = 20 + 8 * (1024 / 24.1 + 1.5);
  const double fixed = 8500;  // The fixed cost of every kernel.
  // A sequencer triggers x and then w, 645 ns each. x has moved before w begins.
  const double w_visible = fixed + 2 * 645 + 740 + w_ns + 300;
  // The matmul takes 512 columns and 10 cycles more. Its sum is in PSUM 400 cycles later.
  const double sums_visible = w_visible + (512 + 10) / 2.4 + 400 / 2.4;
  // Scalar finishes before Vector would. Scalar takes 64 + 290 more cycles at 1.2 GHz. Vector would
  // take 68 + 80 at 0.96 GHz.
  const double y_visible = sums_visible + (512 + 64) / 1.2 + 290 / 1.2;
  const double stored = y_visible + 645 + 740 + w_ns + 300;
  EXPECT_NEAR(nanoseconds(one_matmul(), kTrn2), stored, 0.1);
}

TEST(Timing, MatmulsTakeTheirColumnsAndAFixedPart) {
  EXPECT_NEAR(chain_interval(kTrn2, DType::kBF16, 512), (512 + 10) / 2.4, 1e-3);
  EXPECT_NEAR(chain_interval(kTrn2, DType::kBF16, 16), (64 + 10) / 2.4, 1e-3);
  // An fp32 matmul has two halves at two cycles per column. The tutorial's profile shows 431 ns
  // each.
  EXPECT_NEAR(chain_interval(kTrn2, DType::kF32, 512), 2 * (1024 + 10) / 2.4, 1e-3);
  EXPECT_NEAR(chain_interval(kTrn2, DType::kF32, 512) / 2, 431, 0.5);
  // On trn1, columns stream in 6 of 7 cycles.
  EXPECT_NEAR(chain_interval(kTrn1, DType::kBF16, 512), 512 / 2.8 * 7 / 6, 1e-3);
}

// Every matmul has a new weight tile, whose load (32 cycles) is hidden behind the running matmul.
TEST(Timing, WeightsLoadBehindTheRunningMatmul) {
  const auto interval = [](int64_t count) {
    Builder b("weights");
    const BufferId x_hbm = b.input("x", DType::kBF16, {128, 1024});
    const BufferId x = b.sbuf("x_tile", DType::kBF16, {128, 1024});
    b.load(at(x, {all(128), all(1024)}), at(x_hbm, {all(128), all(1024)}));
    const BufferId sums = b.psum("sums", {128, 512}, 8);
    b.loop("i", count, 1, [&](const Tile&) {
      b.loop("j", 8 * 128, 128, [&](const Tile& j) {
        b.matmul(at(sums, {all(128), all(128)}), at(x, {all(128), j}), at(x, {all(128), all(128)}),
                 {});
      });
    });
    return nanoseconds(b.finish(), kTrn2);
  };
  EXPECT_NEAR((interval(20) - interval(10)) / 80, (128 + 10) / 2.4, 1e-3);
}

TEST(Timing, AnActivationTableLoadsOnce) {
  const auto activations = [](int64_t count) {
    Builder b("silu");
    const auto [x, w] = load_operands(b, DType::kBF16, 512);
    const BufferId y = b.sbuf("y", DType::kBF16, {128, 512});
    b.loop("i", count, 1, [&, w = w](const Tile&) {
      b.silu(at(y, {all(128), all(512)}), at(w, {all(128), all(512)}));
    });
    return nanoseconds(b.finish(), kTrn2);
  };
  const double one = activations(1), two = activations(2), three = activations(3);
  EXPECT_NEAR(three - two, (512 + 64) / 1.2, 1e-3);
  EXPECT_NEAR(two - one, (512 + 64) / 1.2, 1e-3);
  // The time is the kernel's fixed 8500 ns, the triggers of x and w, the load of w, the table load,
  // the activation and its latency.
  const double w_visible = 8500 + 2 * 645 + 740 + 20 + 8 * (1024 / 24.1 + 1.5) + 300;
  EXPECT_NEAR(one, w_visible + 1280 + (512 + 64) / 1.2 + 290 / 1.2, 0.1);
}

// Eight results are evicted. On trn2, Vector and Scalar share them. On trn1, only one of the two
// can use PSUM at a time.
TEST(Timing, OnTrn1VectorAndScalarExcludeEachOtherOnPsum) {
  const auto evict = [](const DeviceSpec& device) {
    Builder b("evict");
    const auto [x, w] = load_operands(b, DType::kBF16, 512);
    const BufferId sums = b.psum("sums", {128, 512}, 8),
                   y = b.sbuf("y", DType::kF32, {128, 512}, 8);
    b.loop("i", 64, 1, [&, x = x, w = w](const Tile&) {
      b.allocate(sums);
      b.matmul(at(sums, {all(128), all(512)}), at(x, {all(128), all(128)}),
               at(w, {all(128), all(512)}), {});
      b.allocate(y);
      b.copy(at(y, {all(128), all(512)}), at(sums, {all(128), all(512)}));
    });
    return simulate(b.finish(), device)->summary;
  };
  const Summary v2 = evict(kTrn1), v3 = evict(kTrn2);
  EXPECT_LE(v2.vector.instruction_time + v2.scalar.instruction_time, v2.total_time);
  EXPECT_GT(v3.vector.instruction_time + v3.scalar.instruction_time, 1.1 * v3.total_time);
}

// Returns a program that loads into `copies` buffers. With one buffer, a load waits until the
// matmul has read the previous tile.
Program rotating(int64_t copies, int64_t psum_copies) {
  Builder b("rotating");
  const BufferId x_hbm = b.input("x", DType::kBF16, {4096, 128});
  const BufferId w_hbm = b.input("w", DType::kBF16, {4096, 512});
  const BufferId y = b.output("y", DType::kF32, {4096, 512});
  b.loop("i", 4096, 128, [&](const Tile& i) {
    const BufferId x = b.sbuf("x_tile", DType::kBF16, {128, 128}, copies);
    const BufferId w = b.sbuf("w_tile", DType::kBF16, {128, 512}, copies);
    b.load(at(x, {upto(i), all(128)}), at(x_hbm, {i, all(128)}));
    b.load(at(w, {upto(i), all(512)}), at(w_hbm, {i, all(512)}));
    const BufferId sums = b.psum("sums", {128, 512}, psum_copies);
    b.matmul(at(sums, {all(128), all(512)}), at(x, {upto(i), all(128)}), at(w, {upto(i), all(512)}),
             {});
    const BufferId out = b.sbuf("out", DType::kF32, {128, 512}, copies);
    b.copy(at(out, {all(128), all(512)}), at(sums, {all(128), all(512)}));
    b.store(at(y, {i, all(512)}), at(out, {all(128), all(512)}));
  });
  return b.finish();
}

// A sequencer triggers transfers one after the other. Loads that run further ahead can therefore
// delay a store a little.
TEST(Timing, MoreCopiesAreHardlyEverSlower) {
  for (const DeviceSpec& device : devices()) {
    SCOPED_TRACE(std::string(device.name));
    double before = 1e18;
    for (const int64_t copies : {1, 2, 3, 4, 8}) {
      const double now = nanoseconds(rotating(copies, copies), device);
      EXPECT_LE(now, before * 1.02) << copies;
      before = now;
    }
    EXPECT_GT(nanoseconds(rotating(1, 1), device), 1.3 * nanoseconds(rotating(8, 8), device));
  }
}

// With one buffer each, an iteration is the triggers of two loads, the second load and the matmul
// that reads it, and only then are the next loads triggered. They share the engines with the store
// of the previous iteration, which has 512 fp32 per row.
TEST(Timing, WithSingleBuffersLoadsAndMatmulsTakeTurns) {
  const double w_ns = 20 + 8 * (1024 / 24.1 + 1.5);
  const double iteration = 2 * 645 + 740 + w_ns + 300 + (512 + 10) / 2.4;
  const double store = 130 + 8 * (2048 / 23.0 + 1);
  const double measured = nanoseconds(rotating(1, 8), kTrn2) / 32;
  EXPECT_GT(measured, iteration * 0.999);
  EXPECT_LT(measured, iteration + store);
}

TEST(Timing, TheThrottleCostsItsRamp) {
  const TimingOptions throttled{.throttle = true};
  const Program program = chain(2000, DType::kBF16, 512);
  const double plain = nanoseconds(program, kTrn2);
  // The rate rises from half to full in 3 us, which loses 3000 · ∫ (1 - rate) = 750 ns of
  // streaming.
  EXPECT_NEAR(nanoseconds(program, kTrn2, throttled), plain + 750, 150);
  EXPECT_EQ(nanoseconds(chain(2000, DType::kBF16, 512), kTrn1, throttled),
            nanoseconds(chain(2000, DType::kBF16, 512), kTrn1));
}

// Checks bounds that no schedule can beat.
void expect_bounds(const Timing& timing, const DeviceSpec& device, DType dtype) {
  const Summary& s = timing.summary;
  const double passes = dtype == DType::kF32 ? 4 : 1;
  const double compute = s.hardware_flops * passes / device.peak_flops_per_ns() * 1e-9;
  if (s.transpose_flops == 0) {
    EXPECT_GE(s.total_time, compute * 0.999);
  }
  EXPECT_GE(s.total_time, static_cast<double>(s.hbm_bytes()) /
                              (device.dma_engines * device.dma_bandwidth) * 1e-9);
  for (const EngineSummary* engine : {&s.tensor, &s.vector, &s.scalar, &s.gpsimd}) {
    EXPECT_GE(s.total_time, engine->instruction_time * (1 - 1e-9));
    EXPECT_LE(engine->active_time_percent, 100.0001);
  }
  EXPECT_LE(s.dma_active_time, s.total_time * (1 + 1e-9));
}

TEST(Timing, NoKernelBeatsTheBoundsOfAnyDevice) {
  std::mt19937 random(11);
  const auto size = [&](int64_t most) { return 1 + static_cast<int64_t>(random()) % most; };
  for (const Kernel& kernel : kernels::kernels()) {
    for (const DeviceSpec& device : devices()) {
      for (int round = 0; round < 3; ++round) {
        KernelShape shape{size(700), size(900), size(400), size(1300), size(400)};
        shape = kernels::suited(kernel, shape);
        const KernelOptions options{.dtype = round == 1 ? DType::kF32 : DType::kBF16};
        SCOPED_TRACE(
            fmt::format("{} on {}: {}", kernel.name, device.name, shape_sizes(kernel, shape)));
        const auto tiling = kernels::tiling_of(kernel, {});
        ASSERT_TRUE(tiling.ok());
        const auto program = kernels::make_program(kernel, shape, *tiling, options);
        ASSERT_TRUE(program.ok()) << program.error().message;
        const auto timing = simulate(*program, device);
        ASSERT_TRUE(timing.ok()) << timing.error().message;
        expect_bounds(*timing, device, options.dtype);
        // A second simulation gives the same result.
        const auto again = simulate(*program, device);
        EXPECT_EQ(timing->summary.fields(), again->summary.fields());
        // Without spills, the traffic is what the program says.
        const tile::Counts counts = tile::count(*program);
        if (timing->remedies.empty()) {
          EXPECT_EQ(timing->summary.hbm_read_bytes, counts.hbm_read_bytes);
          EXPECT_EQ(timing->summary.hbm_write_bytes, counts.hbm_write_bytes);
        }
        EXPECT_EQ(timing->instructions, counts.instructions);
      }
    }
  }
}

// A malformed program is an error that names the instruction, whatever the rule.
TEST(Timing, ProgramsThatBreakARuleAreRefused) {
  const auto message = [](const auto& build) {
    Builder b("faulty");
    build(b);
    const auto timing = simulate(b.finish(), kTrn2);
    return timing.ok() ? std::string("no error") : timing.error().message;
  };
  EXPECT_NE(message([](Builder& b) {
              const auto [x, w] = load_operands(b, DType::kBF16, 512);
              b.matmul(at(w, {all(128), all(512)}), at(x, {all(128), all(128)}),
                       at(w, {all(128), all(512)}), {});
            }).find("PSUM only"),
            std::string::npos);
  EXPECT_NE(message([](Builder& b) {
              const BufferId sums = b.psum("sums", {128, 512}, 1);
              b.zero(at(sums, {all(128), all(512)}));
              const BufferId y = b.output("y", DType::kF32, {128, 512});
              b.store(at(y, {all(128), all(512)}), at(sums, {all(128), all(512)}));
            }).find("DMA does not reach PSUM"),
            std::string::npos);
  EXPECT_NE(message([](Builder& b) {
              const BufferId sums = b.psum("sums", {128, 512}, 9);
              b.zero(at(sums, {all(128), all(512)}));
            }).find("PSUM needs 9 banks"),
            std::string::npos);
  Program loose = one_matmul();
  loose.buffers.pop_back();
  EXPECT_FALSE(simulate(loose, kTrn2).ok());
}

TEST(Timing, TheSummaryCountsWhatAMatmulDoes) {
  const Summary s = simulate(one_matmul(), kTrn2)->summary;
  EXPECT_EQ(s.hbm_read_bytes, 128 * 128 * 2 + 128 * 512 * 2);
  EXPECT_EQ(s.hbm_write_bytes, 128 * 512 * 2);
  EXPECT_EQ(s.hardware_flops, 2.0 * 128 * 128 * 512);
  EXPECT_EQ(s.matmul_instruction_count, 1);
  EXPECT_EQ(s.tensor.instruction_count, 2);  // LoadStationary and MultiplyMoving.
  EXPECT_EQ(s.dma_transfer_count, 3);
  EXPECT_EQ(s.psum_write_bytes, 128 * 512 * 4);
  EXPECT_EQ(s.psum_read_bytes, 128 * 512 * 4);
  EXPECT_EQ(s.spill_save_bytes + s.spill_reload_bytes, 0);
  const double peak = 2.0 * 128 * 128 * 2.4e9;
  EXPECT_NEAR(s.mfu_estimated_percent, 100 * s.model_flops / (peak * s.total_time), 1e-9);
  EXPECT_NEAR(s.mbu_estimated_percent, 100 * 294912 / s.total_time / 716e9, 1e-9);
}

// The largest published kernel (M = 32768) has half a million instructions.
TEST(Timing, HalfAMillionInstructionsTakeSeconds) {
  const kernels::Tiling tiling({{"BM", 8}, {"Br", 8}, {"BN", 2}, {"BK", 4}});
  const Program program =
      kernels::xuv({32768, 8192, 4096, 16384}, tiling, {.accumulate = DType::kBF16});
  const auto begin = std::chrono::steady_clock::now();
  const auto timing = simulate(program, kTrn1);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  ASSERT_TRUE(timing.ok());
  RecordProperty("instructions", static_cast<int>(timing->instructions));
  RecordProperty("seconds", std::to_string(seconds));
  EXPECT_LT(seconds, 20);  // 0.1 s on a free core; sanitizers and busy machines are slower.
}

}  // namespace
}  // namespace neuronmm::simulator
