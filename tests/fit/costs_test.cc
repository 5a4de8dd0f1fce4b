// Tests the times of parts and whole models on a simulated device, whose clock is exact, and on the
// CPU.

#include "fit/costs.h"

#include <gtest/gtest.h>

#include "cpu/backend.h"
#include "fit/synthetic_weight.h"
#include "model/tiny_model.h"
#include "trainium/device/backend.h"

namespace neuronmm::fit {
namespace {

io::ModelConfig tiled_config() {
  io::ModelConfig config = model::tiny_config(io::Architecture::kLlama);
  config.hidden_size = 128;
  config.intermediate_size = 256;
  config.head_dim = 32;
  config.max_position_embeddings = 64;
  return config;
}

void write(const model::ModelFolder& folder, const io::ModelConfig& config) {
  folder.write_tensors(model::random_tensors(config, 20261123));
  folder.write_text("config.json", model::config_json(config));
}

Device simulated() {
  return {[]() -> Result<std::unique_ptr<ops::Backend>> {
            NMM_ASSIGN(const auto trn1, simulator::find_device("trn1"));
            return device::make_timing_backend(trn1, device::default_tilings(trn1));
          },
          true};
}
Device cpu() {
  return {[] { return Result<std::unique_ptr<ops::Backend>>(cpu::make_backend()); }, false};
}

// The rest must be what the parts do not include: norms, attention itself and residuals.
TEST(Costs, PartsAndRestAddUpToTheModel) {
  const model::ModelFolder folder;
  write(folder, tiled_config());
  Progress silent;
  const auto costs = Costs::measure(folder.path(), simulated(), silent);
  ASSERT_TRUE(costs.ok()) << costs.error().message;
  const auto mlp = costs->mlp({}, kAsIs, kAsIs);
  ASSERT_TRUE(mlp);
  const Seconds sum = costs->rest() + 2.0 * (costs->attention(kAsIs) + *mlp) + costs->head(kAsIs);
  EXPECT_NEAR(sum.decode, costs->dense().decode, 1e-12);
  EXPECT_NEAR(sum.prefill, costs->dense().prefill, 1e-12);
  EXPECT_GT(costs->rest().decode, 0.0);
  EXPECT_LT(costs->rest().decode, costs->dense().decode);
  // An MLP with half of the neurons must be faster.
  const auto half = costs->mlp({.neurons = 128}, kAsIs, kAsIs);
  ASSERT_TRUE(half);
  EXPECT_LT(half->prefill, mlp->prefill);
}

TEST(Costs, TimesOnTheCpuGrowWithParameters) {
  const model::ModelFolder folder;
  write(folder, tiled_config());
  Progress silent;
  const auto costs = Costs::measure(folder.path(), cpu(), silent);
  ASSERT_TRUE(costs.ok()) << costs.error().message;
  for (size_t format = 0; format <= kAsIs; ++format) {
    EXPECT_GT(costs->attention(format).decode, 0.0);
    EXPECT_GT(costs->head(format).prefill, 0.0);
    const auto whole = costs->mlp({}, format, format);
    const auto half = costs->mlp({.neurons = 128}, format, format);
    ASSERT_TRUE(whole && half);
    EXPECT_GT(whole->prefill, 0.0);
    EXPECT_LE(half->prefill, whole->prefill);
  }
}

// Backends must accept synthetic weights like those of a folder.
TEST(SyntheticWeights, AreFinite) {
  const SyntheticWeights weights(300, 300 * 200, DType::kBF16);
  const auto backend = cpu::make_backend();
  for (const std::optional<LowBitFormat>& format :
       std::vector<std::optional<LowBitFormat>>{{}, {{8}}, {{6}}, {{4, 16}}, {{4, 32}}}) {
    ops::LinearWeight weight;
    weight.w_t = weights.weight(300, 200, format);
    std::vector<double> values(200);
    ops::to_doubles(weight.w_t, 200, 200, values.data());
    for (const double value : values) EXPECT_TRUE(std::isfinite(value) && value != 0.0);
    Matrix x(3, 200), y(3, 300);
    for (int64_t i = 0; i < 600; ++i) x.data()[i] = static_cast<float>(i % 5);
    backend->make_linear(weight)->apply(x.view(), y.view());
    for (int64_t i = 0; i < 900; ++i) EXPECT_TRUE(std::isfinite(y.data()[i]));
  }
}

}  // namespace
}  // namespace neuronmm::fit
