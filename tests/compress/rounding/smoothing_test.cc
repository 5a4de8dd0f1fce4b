// Tests smoothing factors: the model computes the same function, and they minimize the product of
// both rounding errors.

#include "compress/rounding/smoothing.h"

#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "cpu/backend.h"
#include "model/layer_weights.h"
#include "model/tiny_model.h"

namespace neuronmm::compress {
namespace {

constexpr uint64_t kSmoothingSeed = 20261123;

std::vector<double> random_sizes(int64_t count, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  std::vector<double> sizes;
  for (int64_t i = 0; i < count; ++i) sizes.push_back(std::exp(normal(random)));
  return sizes;
}

ChannelSizes random_channel_sizes(const io::ModelConfig& config, int64_t layer,
                                  std::mt19937_64& random) {
  const auto& record = config.compression;
  const int64_t left = record ? record->ranks[static_cast<size_t>(layer)].neurons : 0;
  return {random_sizes(config.hidden_size, random),
          random_sizes(config.num_attention_heads * config.head_dim, random),
          random_sizes(config.hidden_size, random),
          random_sizes(left > 0 ? left : config.intermediate_size, random)};
}

double exponent_half(const std::string&) { return 0.5; }

Result<TensorScales> random_scales(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
                                   std::mt19937_64& random) {
  const auto sizes = [&](int64_t layer) -> Result<ChannelSizes> {
    return random_channel_sizes(config, layer, random);
  };
  return smoothing_scales(checkpoint, config, sizes, random_sizes(config.hidden_size, random),
                          exponent_half);
}

void scale_all(const TensorScales& scales, model::TestTensors& tensors) {
  for (const auto& [name, scale] : scales) {
    model::TestTensor& tensor = tensors.at(name);
    const TensorView view = {tensor.dtype, tensor.shape,
                             reinterpret_cast<const std::byte*>(tensor.values.data())};
    tensor.values = scaled_values(view, scale);
  }
}

double largest_difference(const Matrix& a, const Matrix& b) {
  double largest = 0.0;
  for (int64_t i = 0; i < a.rows() * a.columns(); ++i) {
    largest = std::max(largest, std::abs(double{a.data()[i]} - b.data()[i]));
  }
  return largest;
}

struct Smoothed {
  model::TestTensors before, after;
  TensorScales scales;
};

Smoothed smoothed(const io::ModelConfig& config, std::mt19937_64& random) {
  Smoothed result;
  result.before = result.after = model::random_tensors(config, random());
  const model::ModelFolder folder;
  folder.write_tensors(result.before);
  const auto checkpoint = io::Checkpoint::open(folder.path());
  const auto scales = random_scales(checkpoint.value(), config, random);
  if (!scales.ok()) throw std::runtime_error(scales.error().message);
  result.scales = *scales;
  scale_all(result.scales, result.after);
  return result;
}

void expect_the_same_model(const io::ModelConfig& config) {
  std::mt19937_64 random(kSmoothingSeed);
  SCOPED_TRACE(fmt::format("seed {}", kSmoothingSeed));
  const Smoothed model = smoothed(config, random);
  const auto backend = cpu::make_backend();
  const auto tokens = model::random_tokens(7, config.vocab_size, kSmoothingSeed);
  const auto before = model::load_tiny(config, model.before, *backend);
  const auto after = model::load_tiny(config, model.after, *backend);
  ASSERT_TRUE(before.ok() && after.ok());
  const Matrix logits = model::all_logits(*before, tokens);
  double largest = 0.0;
  for (int64_t i = 0; i < logits.rows() * logits.columns(); ++i) {
    largest = std::max(largest, std::abs(double{logits.data()[i]}));
  }
  EXPECT_LE(largest_difference(logits, model::all_logits(*after, tokens)), 1e-4 * largest);
  // Every layer has changed, by more than rounding.
  EXPECT_GE(std::ssize(model.scales), (config.input_norms ? 9 : 4) * config.num_hidden_layers);
  EXPECT_NE(model.before.at("model.layers.1.self_attn.v_proj.weight").values,
            model.after.at("model.layers.1.self_attn.v_proj.weight").values);
}

TEST(Smoothing, LogitsStayTheSameInEveryArchitecture) {
  for (const io::Architecture architecture :
       {io::Architecture::kLlama, io::Architecture::kMistral, io::Architecture::kQwen2,
        io::Architecture::kQwen3, io::Architecture::kOlmo2, io::Architecture::kGemma2,
        io::Architecture::kGranite}) {
    for (const bool tied : {false, true}) {
      SCOPED_TRACE(fmt::format("{}, tied {}", io::architecture_name(architecture), tied));
      io::ModelConfig config = model::tiny_config(architecture);
      config.tie_word_embeddings = tied;
      expect_the_same_model(config);
    }
  }
}

TEST(Smoothing, LogitsStayTheSameInEveryForm) {
  const std::pair<const char*, std::vector<io::MlpShape>> forms[] = {
      {"uv", {{5, 9, 7}, {1, 15, 15}}},
      {"pivoted", {{5, 9, 7}, {1, 15, 15}}},
      {"narrow", {{0, 0, 7, 9}, {0, 0, 15, 1}}},
      {"neurons", {{0, 0, 0, 0, 3}, {0, 0, 0, 0, 24}}},
      {"mixed", {{0, 0, 7, 9, 20}, {4, 0, 0, 0, 11}}}};
  for (const auto& [form, shapes] : forms) {
    SCOPED_TRACE(form);
    io::ModelConfig config = model::tiny_config(io::Architecture::kLlama);
    config.compression = model::tiny_record(form, shapes);
    expect_the_same_model(config);
    config.attention_bias = config.attention_output_bias = config.mlp_bias = true;
    expect_the_same_model(config);
  }
}

// By Cauchy's inequality Σ (x_c / s_c)² · Σ (s_c |w_c|)² is at least (Σ x_c |w_c|)².
TEST(Smoothing, TheProductOfBothErrorsIsLeast) {
  std::mt19937_64 random(kSmoothingSeed);
  const io::ModelConfig config = model::tiny_config(io::Architecture::kLlama);
  const model::ModelFolder folder;
  const model::TestTensors tensors = model::random_tensors(config, kSmoothingSeed);
  folder.write_tensors(tensors);
  const auto checkpoint = io::Checkpoint::open(folder.path());
  std::vector<ChannelSizes> sizes;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    sizes.push_back(random_channel_sizes(config, layer, random));
  }
  const std::vector<double> head = random_sizes(config.hidden_size, random);
  const auto scales = smoothing_scales(
      checkpoint.value(), config,
      [&](int64_t layer) -> Result<ChannelSizes> { return sizes[static_cast<size_t>(layer)]; },
      head, exponent_half);
  ASSERT_TRUE(scales.ok());
  const auto check = [&](const std::string& name, const std::vector<double>& x) {
    const model::TestTensor& weight = tensors.at(name);
    const std::vector<double>& s = scales->at(name).columns;
    double activations = 0.0, weights = 0.0, least = 0.0;
    for (size_t c = 0; c < x.size(); ++c) {
      double squares = 0.0;
      for (int64_t i = 0; i < weight.shape[0]; ++i) {
        const double w = weight.values[static_cast<size_t>(i) * x.size() + c];
        squares += w * w;
      }
      activations += x[c] * x[c] / s[c] / s[c];
      weights += s[c] * s[c] * squares;
      least += x[c] * std::sqrt(squares);
    }
    EXPECT_NEAR(activations * weights / (least * least), 1.0, 1e-10) << name;
  };
  check("lm_head.weight", head);
  check("model.layers.0.mlp.down_proj.weight", sizes[0].neurons);
  check("model.layers.1.mlp.down_proj.weight", sizes[1].neurons);
}

// A norm in bf16 or fp16 can hold only few quotients. The factor of the weights after it is the
// exact quotient of the values that the norm holds.
TEST(Smoothing, FactorsMatchTheRoundedNorm) {
  std::mt19937_64 random(kSmoothingSeed);
  const io::ModelConfig config = model::tiny_config(io::Architecture::kQwen2);
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    model::TestTensors tensors = model::random_tensors(config, kSmoothingSeed);
    const std::pair<const char*, const char*> pairs[] = {
        {"model.layers.0.input_layernorm.weight", "model.layers.0.self_attn.k_proj.weight"},
        {"model.layers.1.post_attention_layernorm.weight", "model.layers.1.mlp.up_proj.weight"},
        {"model.norm.weight", "lm_head.weight"}};
    for (const auto& [norm, weight] : pairs) tensors.at(norm).dtype = dtype;
    const model::ModelFolder folder;
    folder.write_tensors(tensors);
    const auto checkpoint = io::Checkpoint::open(folder.path());
    const auto scales = random_scales(checkpoint.value(), config, random);
    ASSERT_TRUE(scales.ok());
    for (const auto& [norm, weight] : pairs) {
      const TensorView& before = checkpoint->tensors().at(norm);
      const std::vector<double>& columns = scales->at(weight).columns;
      const auto unscaled_is_before = [&](const TensorView& after) {
        EXPECT_EQ(after.dtype, dtype);
        for (int64_t c = 0; c < config.hidden_size; ++c) {
          double was = 0, is = 0;
          to_doubles(before, c, 1, &was);
          to_doubles(after, c, 1, &is);
          const double s = columns[static_cast<size_t>(c)];
          // The quotient s and this product are rounded once each, by half an epsilon.
          EXPECT_NEAR(is * s, was, 2 * std::numeric_limits<double>::epsilon() * std::abs(was)) << c;
        }
        return Status();
      };
      ASSERT_TRUE(visit_scaled(*scales, norm, before, unscaled_is_before).ok()) << norm;
    }
  }
}

TEST(Smoothing, UnusedChannelsKeepFactorOne) {
  io::ModelConfig config = model::tiny_config(io::Architecture::kLlama);
  model::TestTensors tensors = model::random_tensors(config, kSmoothingSeed);
  for (const char* const name : {"gate", "up"}) {
    auto& weight = tensors.at(fmt::format("model.layers.0.mlp.{}_proj.weight", name));
    for (int64_t i = 0; i < weight.shape[0]; ++i) {
      weight.values[static_cast<size_t>(i * weight.shape[1]) + 3] = 0.0f;
    }
  }
  const model::ModelFolder folder;
  folder.write_tensors(tensors);
  const auto checkpoint = io::Checkpoint::open(folder.path());
  std::mt19937_64 random(kSmoothingSeed);
  const auto scales = smoothing_scales(
      checkpoint.value(), config,
      [&](int64_t layer) -> Result<ChannelSizes> {
        ChannelSizes sizes = random_channel_sizes(config, layer, random);
        sizes.mlp[5] = 0.0;
        return sizes;
      },
      random_sizes(config.hidden_size, random), exponent_half);
  ASSERT_TRUE(scales.ok());
  const auto& gain = scales->at("model.layers.0.post_attention_layernorm.weight").rows;
  EXPECT_EQ(gain[3], 1.0);
  EXPECT_EQ(gain[5], 1.0);
  EXPECT_NE(gain[4], 1.0);
}

TEST(Smoothing, StatisticsThatAreNotFiniteAreRefused) {
  const io::ModelConfig config = model::tiny_config(io::Architecture::kLlama);
  const model::ModelFolder folder;
  folder.write_tensors(model::random_tensors(config, kSmoothingSeed));
  const auto checkpoint = io::Checkpoint::open(folder.path());
  std::mt19937_64 random(kSmoothingSeed);
  const auto scales = smoothing_scales(
      checkpoint.value(), config,
      [&](int64_t layer) -> Result<ChannelSizes> {
        ChannelSizes sizes = random_channel_sizes(config, layer, random);
        if (layer == 1) sizes.heads[2] = std::nan("");
        return sizes;
      },
      random_sizes(config.hidden_size, random), exponent_half);
  ASSERT_FALSE(scales.ok());
  EXPECT_NE(scales.error().message.find("layers.1"), std::string::npos) << scales.error().message;
}

}  // namespace
}  // namespace neuronmm::compress
