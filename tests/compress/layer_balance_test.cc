#include "compress/layer_balance.h"

#include <cmath>

#include <gtest/gtest.h>

#include "compress/mlp_statistics.h"
#include "io/io_test.h"
#include "io/safetensors_writer.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

using Values = std::vector<double>;

void write_doubles(const fs::path& file, const std::vector<io::TensorSpec>& specs,
                   const Values& values) {
  auto writer = io::SafetensorsWriter::create_checked(file, specs);
  ASSERT_TRUE(writer.ok());
  size_t first = 0;
  for (const io::TensorSpec& spec : specs) {
    size_t count = 1;
    for (const int64_t size : spec.shape) count *= static_cast<size_t>(size);
    ASSERT_TRUE(writer->append(std::as_bytes(std::span(values).subspan(first, count))).ok());
    first += count;
  }
  ASSERT_TRUE(writer->finish().ok());
}

class LayerBalance : public testing::Test {
 protected:
  void SetUp() override {
    config_.hidden_size = 2;
    config_.intermediate_size = 1;
  }
  // A layer per entry: the diagonal of its metric, and the mean square of the residual stream.
  Result<Values> factors(const std::vector<Values>& diagonals, const Values& residuals) {
    config_.num_hidden_layers = std::ssize(residuals);
    std::vector<io::TensorSpec> specs;
    Values values;
    for (size_t layer = 0; layer < residuals.size(); ++layer) {
      specs.push_back({fmt::format("model.layers.{}.mlp.metric_out", layer), DType::kF64, {2, 2}});
      const Values& diagonal = diagonals[layer];
      values.insert(values.end(), {diagonal[0], 0.25, 0.25, diagonal[1]});
      write_doubles(statistics_path(folder_.path(), static_cast<int64_t>(layer)),
                    {{"residual", DType::kF64, {1, 1}}}, {residuals[layer]});
    }
    write_doubles(folder_ / "metric", specs, values);
    return balance_factors(folder_ / "metric", folder_.path(), config_);
  }
  io::TemporaryFolder folder_;
  io::ModelConfig config_;
};

TEST_F(LayerBalance, IsTheRootOfWhatARelativeErrorIsWorth) {
  // Traces 3 and 1, residuals 3 and 4: a relative error is worth 9 and 4.
  const auto found = factors({{1.0, 2.0}, {0.5, 0.5}}, {3.0, 4.0});
  ASSERT_TRUE(found.ok()) << found.error().message;
  ASSERT_EQ(found->size(), 2U);
  EXPECT_NEAR((*found)[1] / (*found)[0], 1.5, 1e-12);
  EXPECT_NEAR((*found)[0] * (*found)[1], 1.0, 1e-12);
}

TEST_F(LayerBalance, IsNothingWhereALayerIsWorthNothing) {
  const auto found = factors({{1.0, 3.0}, {0.0, 0.0}, {1.0, 3.0}, {4.0, 4.0}}, {2, 5, 2, 0});
  ASSERT_TRUE(found.ok()) << found.error().message;
  for (const double factor : *found) EXPECT_NEAR(factor, 1.0, 1e-12);
}

TEST_F(LayerBalance, NamesTheFileThatLacksALayer) {
  ASSERT_TRUE(factors({{1.0, 2.0}}, {3.0}).ok());
  config_.num_hidden_layers = 2;
  const auto found = balance_factors(folder_ / "metric", folder_.path(), config_);
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.error().message.find((folder_ / "metric").string()), std::string::npos);
}

}  // namespace
}  // namespace neuronmm::compress
