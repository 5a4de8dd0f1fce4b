// The figures that the timing model claims, against every published measurement.

#include "trainium/validation/validation.h"

#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "trainium/simulator/timing.h"
#include "trainium/tile/counts.h"

namespace neuronmm::validation {
namespace {

const std::vector<Row>& rows() {
  static const std::vector<Row> all = validate().value();
  return all;
}

double simulated(const PublishedProgram& program, Quantity quantity) {
  for (const Row& row : rows()) {
    if (row.published->program.id == program.id && row.published->quantity == quantity)
      return row.simulated;
  }
  ADD_FAILURE() << "no row " << program.id;
  return 0;
}

TEST(Validation, MeanErrors) {
  const TimeError calibration = time_error(rows(), Set::kCalibration);
  const TimeError validation = time_error(rows(), Set::kValidation);
  EXPECT_LE(calibration.mean_absolute, 0.07) << to_string(rows());
  EXPECT_LE(validation.mean_absolute, 0.12) << to_string(rows());
}

// One time is off by more than 25 % and is shown as unexplained: the ladder's first rung, whose two
// dependent loads and matmul are published to take less than one load is.
TEST(Validation, OutlierIsTheOneWeKnow) {
  for (const Row& row : rows()) {
    const auto& p = *row.published;
    const bool time = p.quantity == Quantity::kMilliseconds || p.quantity == Quantity::kMfuPercent;
    if (!time || p.program.id == "ladder_inner_loads") continue;
    EXPECT_LE(std::abs(row.difference), kUnexplained) << p.program.id;
  }
}

TEST(Validation, TrafficOfTheFusedKernel) {
  for (const Row& row : rows()) {
    const auto& p = *row.published;
    if (p.quantity != Quantity::kHbmGib || !p.program.id.starts_with("neuronmm")) continue;
    // 2 %, or what the chart can be read to.
    EXPECT_LE(std::abs(row.simulated - p.value), std::max(0.02 * p.value, p.tolerance))
        << p.program.id;
  }
}

TEST(Validation, TrafficOfTheSpillingBaselines) {
  int checked = 0;
  for (const Row& row : rows()) {
    const auto& p = *row.published;
    const bool spills = p.program.id.ends_with("_8192") || p.program.id.ends_with("_16384") ||
                        p.program.id.ends_with("_32768");
    if (p.quantity != Quantity::kHbmGib || !spills || !p.program.id.starts_with("nki_x")) continue;
    EXPECT_LE(std::abs(row.difference), 0.15) << p.program.id;
    ++checked;
  }
  EXPECT_EQ(checked, 6);
}

// The paper's sweep: 1024 is best, 2048 and 4096 spill.
TEST(Validation, RowBlocks) {
  const simulator::DeviceSpec trn1 = simulator::find_device("trn1").value();
  std::map<int64_t, simulator::Summary> summaries;
  for (const PublishedRowBlock& block : kPublishedRowBlocks) {
    const kernels::Instance xuv = kernel_of(block);
    EXPECT_EQ(xuv.tiling["BM"] * 128, block.rows);
    const tile::Program program = xuv.kernel->make(xuv.shape, xuv.tiling, xuv.options);
    summaries[block.rows] = simulator::simulate(program, trn1).value().summary;
  }
  for (const auto& [rows, summary] : summaries) {
    EXPECT_EQ(summary.spill_save_bytes > 0, rows >= 2048) << rows;
    EXPECT_GE(summary.total_time, summaries.at(1024).total_time) << rows;
  }
}

TEST(Validation, ByteExactRows) {
  for (const Row& row : rows()) {
    const auto& p = *row.published;
    if (p.quantity == Quantity::kHbmReadBytes || p.quantity == Quantity::kHbmWriteBytes) {
      EXPECT_EQ(row.simulated, p.value) << p.program.id;
    }
  }
}

// Order and gaps come out of the mechanisms.
TEST(Validation, TheLadderClimbs) {
  double before = 0;
  for (const auto& rung : {ladder_inner_loads, ladder_hoisted, ladder_double_psum, ladder_streaming,
                           ladder_two_stage}) {
    const double mfu = simulated(rung(), Quantity::kMfuPercent);
    EXPECT_GT(mfu, before) << rung().id;
    before = mfu;
  }
}

TEST(Validation, FusedBeatsSequentialBeatsDense) {
  for (const int64_t M : {1024, 4096, 8192, 32768}) {
    SCOPED_TRACE(M);
    const auto time = [&](PublishedProgram (*program)(int64_t)) {
      return simulated(program(M), Quantity::kMilliseconds);
    };
    EXPECT_LE(time(neuronmm), time(nki_xuv) * 1.01);
    EXPECT_LT(time(nki_xuv), time(nki_xw));
  }
}

// What a row says of its program is what the program is.
TEST(Validation, ProgramsAreOfTheirShapes) {
  for (const Row& row : rows()) {
    const PublishedProgram& p = row.published->program;
    const tile::Program program = p.make(p);
    SCOPED_TRACE(p.id);
    for (const tile::Buffer& buffer : program.buffers) {
      if (buffer.memory != tile::Memory::kHbm || buffer.name == "identity") continue;
      EXPECT_EQ(buffer.dtype, p.dtype) << buffer.name;
      if (buffer.name == "y") {
        EXPECT_EQ(buffer.shape, (Shape{p.shape.M, p.shape.N}));
      }
    }
    const int64_t weights = p.shape.r > 0 && p.id != "nkibench_lora"
                                ? p.shape.r * (p.shape.K + p.shape.N)
                                : p.shape.K * p.shape.N + p.shape.r * (p.shape.K + p.shape.N);
    EXPECT_EQ(tile::count(program).matmul_flops, 2 * p.shape.M * weights);
  }
}

}  // namespace
}  // namespace neuronmm::validation
