// The figures that the timing model claims, against every published measurement.

#include "trainium/validation/validation.h"

#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "trainium/kernels/xuv.h"
#include "trainium/simulator/timing.h"

namespace neuronmm::validation {
namespace {

using simulator::Quantity;
using simulator::Set;

const std::vector<Row>& rows() {
  static const std::vector<Row> all = validate().value();
  return all;
}

double simulated(std::string_view id, Quantity quantity) {
  for (const Row& row : rows()) {
    if (row.published->id == id && row.published->quantity == quantity) return row.simulated;
  }
  ADD_FAILURE() << "no row " << id;
  return 0;
}

TEST(Validation, MeanErrors) {
  const Error calibration = time_error(rows(), Set::kCalibration);
  const Error validation = time_error(rows(), Set::kValidation);
  EXPECT_LE(calibration.mean_absolute, 0.07) << to_string(rows());
  EXPECT_LE(validation.mean_absolute, 0.12) << to_string(rows());
}

// One time is off by more than 25 % and is shown as unexplained: the ladder's first rung, whose two
// dependent loads and matmul are published to take less than one load is.
TEST(Validation, OutlierIsTheOneWeKnow) {
  for (const Row& row : rows()) {
    const auto& p = *row.published;
    const bool time = p.quantity == Quantity::kMilliseconds || p.quantity == Quantity::kMfuPercent;
    if (!time || p.id == "ladder_inner_loads") continue;
    EXPECT_LE(std::abs(row.difference), kUnexplained) << p.id;
  }
}

TEST(Validation, TrafficOfTheFusedKernel) {
  for (const Row& row : rows()) {
    const auto& p = *row.published;
    if (p.quantity != Quantity::kHbmGib || !p.id.starts_with("neuronmm")) continue;
    // 2 %, or what the chart can be read to.
    EXPECT_LE(std::abs(row.simulated - p.value), std::max(0.02 * p.value, p.tolerance)) << p.id;
  }
}

TEST(Validation, TrafficOfTheSpillingBaselines) {
  int checked = 0;
  for (const Row& row : rows()) {
    const auto& p = *row.published;
    const bool spills =
        p.id.ends_with("_8192") || p.id.ends_with("_16384") || p.id.ends_with("_32768");
    if (p.quantity != Quantity::kHbmGib || !spills || !p.id.starts_with("nki_x")) continue;
    EXPECT_LE(std::abs(row.difference), 0.15) << p.id;
    ++checked;
  }
  EXPECT_EQ(checked, 6);
}

// The paper's sweep: 1024 is best, 2048 and 4096 spill.
TEST(Validation, RowBlocks) {
  const simulator::DeviceSpec trn1 = simulator::find_device("trn1").value();
  std::map<int64_t, simulator::Summary> summaries;
  for (const simulator::PublishedRowBlock& block : simulator::kPublishedRowBlocks) {
    const kernels::Tiling tiling({{"BM", block.rows / 128}, {"BK", 4}, {"Br", 8}, {"BN", 2}});
    const tile::Program program = kernels::xuv({.M = 4096, .K = 7168, .r = 4096, .N = 18432},
                                               tiling, {.accumulate = DType::kBF16});
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
      EXPECT_EQ(row.simulated, p.value) << p.id;
    }
  }
}

// Order and gaps come out of the mechanisms.
TEST(Validation, TheLadderClimbs) {
  double before = 0;
  for (const char* rung : {"ladder_inner_loads", "ladder_hoisted", "ladder_double_psum",
                           "ladder_streaming", "ladder_two_stage"}) {
    const double mfu = simulated(rung, Quantity::kMfuPercent);
    EXPECT_GT(mfu, before) << rung;
    before = mfu;
  }
}

TEST(Validation, FusedBeatsSequentialBeatsDense) {
  for (const char* rows_text : {"1024", "4096", "8192", "32768"}) {
    SCOPED_TRACE(rows_text);
    const auto time = [&](std::string kernel) {
      return simulated(kernel + "_" + rows_text, Quantity::kMilliseconds);
    };
    EXPECT_LE(time("neuronmm"), time("nki_xuv") * 1.01);
    EXPECT_LT(time("nki_xuv"), time("nki_xw"));
  }
}

TEST(Validation, UnknownProgram) {
  EXPECT_FALSE(published_program("nothing").ok());
  EXPECT_FALSE(published_program("neuronmm_x").ok());
  EXPECT_FALSE(published_program("").ok());
}

}  // namespace
}  // namespace neuronmm::validation
