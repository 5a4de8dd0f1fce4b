// Checks the class of a kernel, which follows from its bounds and its latency, and the error bands
// against the tables in docs.

#include "trainium/trace/error_band.h"

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include <gtest/gtest.h>

#include "places.h"

namespace neuronmm::trace {
namespace {

TraceTiming timing(double latency_ns, TraceBound bound) {
  TraceTiming timing;
  timing.timing.summary.total_time = latency_ns * 1e-9;
  timing.bound = bound;
  return timing;
}

TEST(ErrorBand, TheLargestBoundIsTheClass) {
  EXPECT_EQ(class_of(timing(150, {.tensor_ns = 100, .vector_ns = 90})), KernelClass::kTensor);
  EXPECT_EQ(class_of(timing(150, {.tensor_ns = 80, .vector_ns = 90})), KernelClass::kElementwise);
  EXPECT_EQ(class_of(timing(150, {.scalar_ns = 91, .dma_ns = 90})), KernelClass::kElementwise);
  EXPECT_EQ(class_of(timing(150, {.gpsimd_ns = 91, .dma_ns = 90})), KernelClass::kElementwise);
  EXPECT_EQ(class_of(timing(150, {.scalar_ns = 91, .dma_ns = 92})), KernelClass::kDma);
  EXPECT_EQ(class_of(timing(150, {.tensor_ns = 91, .compulsory_ns = 92})), KernelClass::kDma);
}

TEST(ErrorBand, AKernelWaitsIfNoBoundIsHalfOfItsLatency) {
  EXPECT_EQ(class_of(timing(201, {.tensor_ns = 100, .dma_ns = 99})), KernelClass::kWaiting);
  EXPECT_EQ(class_of(timing(199, {.tensor_ns = 100, .dma_ns = 99})), KernelClass::kTensor);
}

TraceTiming charged(std::vector<ChargedTime> times, double fixed_ns = 0) {
  TraceTiming timing;
  timing.charged = std::move(times);
  timing.fixed_ns = fixed_ns;
  return timing;
}

TEST(ErrorBand, TheBandIsTheMeanOfTheWidthsByTime) {
  const ChargedTime transfer{Evidence::kTransfer, "dma_copy", 100};
  const ChargedTime other{Evidence::kUnmeasured, "rand2", 100};
  const double measured = error_band(charged({transfer}), "nki", "trn2").percent;
  const double unmeasured = error_band(charged({other}), "nki", "trn2").percent;
  EXPECT_GT(measured, 0);
  EXPECT_GT(unmeasured, 2 * measured);
  EXPECT_DOUBLE_EQ(error_band(charged({transfer, other}), "nki", "trn2").percent,
                   (measured + unmeasured) / 2);
}

TEST(ErrorBand, InstructionsWithoutAMeasurementAreNamed) {
  const ErrorBand band = error_band(charged({{Evidence::kTransfer, "dma_copy", 50},
                                             {Evidence::kUnmeasured, "topk", 10},
                                             {Evidence::kUnmeasured, "rand2", 20}},
                                            20),
                                    "nki", "trn2");
  EXPECT_DOUBLE_EQ(band.unmeasured_percent, 30);
  EXPECT_EQ(band.unmeasured, "rand2, topk");
  EXPECT_EQ(error_band(charged({{Evidence::kTensor, "nc_matmul", 50}}), "nki", "trn2").unmeasured,
            "");
}

TEST(ErrorBand, DevicesAndDialectsWithFewMeasurementsHaveWiderBands) {
  const TraceTiming timing = charged({{Evidence::kTransfer, "dma_copy", 50}});
  const double trn2 = error_band(timing, "nki", "trn2").percent;
  EXPECT_EQ(error_band(timing, "nki", "trn2").wider, "");
  for (const auto& [dialect, device] : std::vector<std::pair<std::string, std::string>>{
           {"nki", "trn1"}, {"nki", "trn3"}, {"neuronxcc", "trn1"}, {"neuronxcc", "trn2"}}) {
    const ErrorBand band = error_band(timing, dialect, device);
    EXPECT_GT(band.percent, trn2) << dialect << " " << device;
    EXPECT_NE(band.wider, "") << dialect << " " << device;
  }
}

// Returns the fields of a line of a table in docs/measurements, by the names in the table's first
// line. No field is quoted.
std::map<std::string, std::string> fields(const std::string& names, const std::string& line) {
  std::istringstream name_stream(names), stream(line);
  std::map<std::string, std::string> found;
  std::string name, value;
  while (std::getline(name_stream, name, ',')) {
    value.clear();
    std::getline(stream, value, ',');
    found[name] = value;
  }
  return found;
}

// The table has the predictions of this model with the bands that it printed.
TEST(ErrorBand, NineOfTenFittedRowsLieInsideTheirBands) {
  std::ifstream table(source_dir() / "docs/measurements/predictions_chipboost.csv");
  std::string names, line;
  ASSERT_TRUE(std::getline(table, names));
  int open = 0, inside = 0;
  while (std::getline(table, line)) {
    std::map<std::string, std::string> row = fields(names, line);
    if (row["half"] != "open" || row["published_us"].empty()) continue;
    const double predicted = std::stod(row["predicted_us"]);
    const double width = predicted * std::stod(row["band_percent"]) / 100;
    inside += std::abs(std::stod(row["published_us"]) - predicted) <= width ? 1 : 0;
    ++open;
  }
  ASSERT_GT(open, 30);
  EXPECT_GE(inside, 0.9 * open);
}

}  // namespace
}  // namespace neuronmm::trace
