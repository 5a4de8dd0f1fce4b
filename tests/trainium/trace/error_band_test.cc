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

TEST(ErrorBand, ABandExistsOnlyWhereRowsWerePredictedBlind) {
  for (const KernelClass each : {KernelClass::kDma, KernelClass::kTensor, KernelClass::kElementwise,
                                 KernelClass::kWaiting}) {
    const auto band = error_band(each, "nki", "trn2");
    ASSERT_TRUE(band) << class_name(each);
    EXPECT_GT(band->rows, 0) << class_name(each);
    EXPECT_GT(band->percent, 0) << class_name(each);
    EXPECT_FALSE(error_band(each, "neuronxcc", "trn2"));
    EXPECT_FALSE(error_band(each, "nki", "trn1"));
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

TEST(ErrorBand, BandsAreTheErrorsOfRowsThatNoRepairHasUsed) {
  std::ifstream table(source_dir() / "docs/measurements/predictions.csv");
  std::string names, line;
  ASSERT_TRUE(std::getline(table, names));
  std::map<std::string, std::vector<double>> errors;
  while (std::getline(table, line)) {
    std::map<std::string, std::string> row = fields(names, line);
    if (row["counts"] != "blind" || row["half"] != "1" || row["repaired_us"].empty()) continue;
    const double error = std::stod(row["repaired_us"]) / std::stod(row["target_us"]) - 1;
    errors[row["repaired_class"]].push_back(100 * std::abs(error));
  }
  for (const KernelClass each : {KernelClass::kDma, KernelClass::kTensor, KernelClass::kElementwise,
                                 KernelClass::kWaiting}) {
    const std::vector<double>& found = errors[std::string(class_name(each))];
    const ErrorBand band = error_band(each, "nki", "trn2").value();
    EXPECT_EQ(band.rows, static_cast<int>(found.size())) << class_name(each);
    double sum = 0;
    for (const double error : found) sum += error;
    EXPECT_NEAR(band.percent, sum / static_cast<double>(found.size()), 0.05) << class_name(each);
  }
}

// Some of the steps do not run and have no prediction.
TEST(ErrorBand, TheLegacyBandIsTheErrorOfAllLegacyRows) {
  std::ifstream table(source_dir() / "docs/measurements/predictions_legacy.csv");
  std::string names, line;
  ASSERT_TRUE(std::getline(table, names));
  double sum = 0;
  int rows = 0;
  while (std::getline(table, line)) {
    std::map<std::string, std::string> row = fields(names, line);
    if (row["predicted_ms"].empty()) continue;
    sum += 100 * std::abs(std::stod(row["predicted_ms"]) / std::stod(row["published_ms"]) - 1);
    ++rows;
  }
  const ErrorBand band = error_band(KernelClass::kDma, "neuronxcc", "trn1").value();
  EXPECT_FALSE(band.of_class);
  EXPECT_EQ(band.rows, rows);
  ASSERT_GT(rows, 0);
  EXPECT_NEAR(band.percent, sum / rows, 0.05);
}

}  // namespace
}  // namespace neuronmm::trace
