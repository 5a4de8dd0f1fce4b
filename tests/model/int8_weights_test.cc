// This test checks models with int8 weights: what their folders must hold, and the CPU's logits
// against the reference's. The CPU rounds activations, too; the reference does not.

#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "backends.h"
#include "model/tensor_specs.h"
#include "ops/forwarding_backend.h"
#include "tiny_model.h"

namespace neuronmm::model {
namespace {

using ops::LinearWeight;

// Every dimension has more than one group, and the last group is not whole.
io::ModelConfig wide_config(io::Architecture architecture) {
  io::ModelConfig config = tiny_config(architecture);
  config.hidden_size = 160;
  config.intermediate_size = 288;
  config.quantization = io::Quantization{};
  return config;
}

TestTensors wide_tensors(const io::ModelConfig& config, uint64_t seed) {
  TestTensors tensors = random_tensors(config, seed);
  for (auto& [name, tensor] : tensors) {
    if (tensor.shape.size() != 2) continue;
    for (float& value : tensor.values) value *= 0.3f;  // keeps activations near 1
  }
  return tensors;
}

class Int8Folder : public testing::Test {
 protected:
  Int8Folder() { config.quantization = io::Quantization{}; }

  std::string load_error() const {
    const auto backend = ops::make_reference_backend();
    const auto transformer = load_tiny(config, tensors, *backend);
    return transformer.ok() ? "" : transformer.error().message;
  }
  void expect_error_naming(const std::vector<std::string>& parts) const {
    const std::string message = load_error();
    for (const std::string& part : parts) {
      EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
    }
  }

  const std::string kName = "model.layers.1.mlp.up_proj.weight", kScale = kName + "_scale";
  io::ModelConfig config = tiny_config(io::Architecture::kLlama);
  TestTensors tensors = quantized_tensors(config, random_tensors(config, 1));
};

TEST_F(Int8Folder, LoadsInt8Weights) {
  EXPECT_EQ(load_error(), "");
  config.tie_word_embeddings = true;
  tensors = quantized_tensors(config, random_tensors(config, 1));
  EXPECT_EQ(tensors.at("model.embed_tokens.weight").dtype, DType::kI8);
  EXPECT_EQ(load_error(), "");
}

TEST_F(Int8Folder, RefusesMissingOrWrongScales) {
  const TestTensor scales = tensors.at(kScale);
  tensors.erase(kScale);
  expect_error_naming({kScale, "missing", "[24, 1]"});
  tensors[kScale] = {DType::kBF16, {12, 2}, scales.values};
  expect_error_naming({kScale, "expected shape [24, 1]", "found [12, 2]"});
  tensors[kScale] = {DType::kF32, scales.shape, scales.values};
  expect_error_naming({kScale, "expected BF16", "found F32"});
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(), -0.5f}) {
    tensors[kScale] = scales;
    tensors[kScale].values[7] = bad;
    expect_error_naming({kScale, "finite", fmt::format("found {} at [7, 0]", bad)});
  }
}

TEST_F(Int8Folder, RefusesWeightsOfAnotherShapeOrDType) {
  tensors.at(kName).shape = {16, 24};
  expect_error_naming({kName, "expected I8 [24, 16]", "found I8 [16, 24]"});
  tensors = quantized_tensors(config, random_tensors(config, 1));
  config.quantization.reset();
  expect_error_naming({"tensor", "I8", "config.json has no neuronmm_quantization"});
}

// Scales without a rounded weight mean that the folder does not match its config.
TEST_F(Int8Folder, ScalesOfAFloatWeightAreRefused) {
  tensors.at(kName).dtype = DType::kF32;
  expect_error_naming({"mlp.up_proj.weight_scale"});
}

TEST_F(Int8Folder, NormsMustBeFloats) {
  const std::string norm = "model.layers.0.input_layernorm.weight";
  tensors.at(norm).dtype = DType::kI8;
  expect_error_naming({norm, "float dtype", "I8"});
}

// The reference applied to x + δ. Every |δ| of a group is random, up to half a step of the group's
// int8 rounding, max |x| / 254. An int8 backend may differ from the reference by as much; this code
// shares nothing with it.
class PerturbedLinear : public ops::Linear {
 public:
  PerturbedLinear(std::unique_ptr<ops::Linear> first, std::unique_ptr<ops::Linear> second,
                  int64_t rank, std::mt19937_64& random)
      : first_(std::move(first)), second_(std::move(second)), rank_(rank), random_(random) {}

  void apply(ConstMatrixView x, MutableMatrixView y) const override {
    const Matrix moved = perturb(x);
    if (!second_) return first_->apply(moved.view(), y);
    Matrix strip(x.rows, rank_);
    first_->apply(moved.view(), strip.view());
    second_->apply(perturb(strip.view()).view(), y);
  }

 private:
  Matrix perturb(ConstMatrixView x) const {
    Matrix moved(x.rows, x.columns);
    for (int64_t i = 0; i < x.rows; ++i) {
      for (int64_t first = 0; first < x.columns; first += ops::kQuantGroup) {
        const int64_t last = std::min(x.columns, first + ops::kQuantGroup);
        float largest = 0;
        for (int64_t j = first; j < last; ++j) largest = std::max(largest, std::abs(x.row(i)[j]));
        std::uniform_real_distribution<float> delta(-largest / 254, largest / 254);
        for (int64_t j = first; j < last; ++j) moved.row(i)[j] = x.row(i)[j] + delta(random_);
      }
    }
    return moved;
  }

  std::unique_ptr<ops::Linear> first_, second_;  // `second` exists only if the layer is low-rank.
  int64_t rank_;
  std::mt19937_64& random_;
};

class PerturbedMlp : public ops::Mlp {
 public:
  PerturbedMlp(const ops::Backend& backend, const ops::MlpWeight& weight)
      : inner_(weight.gate.out_features()),
        gate_(backend.make_linear(weight.gate)),
        up_(backend.make_linear(weight.up)),
        down_(backend.make_linear(weight.down)) {}

  void apply(ConstMatrixView x, MutableMatrixView y) const override {
    Matrix gate(x.rows, inner_), up(x.rows, inner_);
    gate_->apply(x, gate.view());
    up_->apply(x, up.view());
    for (int64_t i = 0; i < x.rows * inner_; ++i) {
      const float z = gate.data()[i];
      up.data()[i] *= z / (1 + std::exp(-z));
    }
    down_->apply(up.view(), y);
  }

 private:
  int64_t inner_;
  std::unique_ptr<ops::Linear> gate_, up_, down_;
};

class PerturbedBackend : public ops::ForwardingBackend {
 public:
  explicit PerturbedBackend(uint64_t seed)
      : ForwardingBackend(ops::make_reference_backend()), random_(seed) {}

  std::string name() const override { return "perturbed"; }
  std::unique_ptr<ops::Linear> make_linear(const LinearWeight& weight) const override {
    LinearWeight first = weight, second;
    if (weight.low_rank()) {
      first = {.w_t = weight.u_t};
      second = {.w_t = weight.v_t, .bias = weight.bias};
    }
    return std::make_unique<PerturbedLinear>(
        inner().make_linear(first), weight.low_rank() ? inner().make_linear(second) : nullptr,
        weight.rank(), random_);
  }
  std::unique_ptr<ops::Mlp> make_mlp(const ops::MlpWeight& weight) const override {
    return std::make_unique<PerturbedMlp>(*this, weight);
  }

 private:
  mutable std::mt19937_64 random_;
};

double root_mean_square_difference(const Matrix& a, const Matrix& b) {
  double squares = 0;
  const int64_t count = a.rows() * a.columns();
  for (int64_t i = 0; i < count; ++i) {
    const double difference = double{a.data()[i]} - double{b.data()[i]};
    squares += difference * difference;
  }
  return std::sqrt(squares / static_cast<double>(count));
}

// The CPU's rounding changes the logits by no more than random rounding of the same size does. Over
// 40 · 19 logits the two root mean squares agree within a few per cent; the margin is 1.3. A
// forgotten group, scale or correction would change them far more.
void expect_cpu_near_reference(const io::ModelConfig& config, const TestTensors& tensors) {
  const auto tokens = random_tokens(40, config.vocab_size, 3);
  const auto logits = [&](const ops::Backend& backend) {
    auto transformer = load_tiny(config, tensors, backend);
    if (!transformer.ok()) throw std::runtime_error(transformer.error().message);
    return all_logits(*transformer, tokens);
  };
  const Matrix expected = logits(*ops::make_reference_backend());
  double allowed = 0;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const Matrix perturbed = logits(PerturbedBackend(seed));
    allowed = std::max(allowed, root_mean_square_difference(perturbed, expected));
  }
  const double found = root_mean_square_difference(logits(*cpu::make_backend()), expected);
  EXPECT_LE(found, 1.3 * allowed);
  EXPECT_GE(found, 0.5 * allowed);  // the activations were really rounded
}

TEST(Int8Model, CpuLogitsAreNearTheReference) {
  for (const auto architecture : {io::Architecture::kLlama, io::Architecture::kQwen2}) {
    SCOPED_TRACE(io::architecture_name(architecture));
    const io::ModelConfig config = wide_config(architecture);
    expect_cpu_near_reference(config, quantized_tensors(config, wide_tensors(config, 5)));
  }
}

TEST(Int8Model, CpuLogitsAreNearTheReferenceWithFactorsAndATiedHead) {
  io::ModelConfig config = wide_config(io::Architecture::kLlama);
  config.tie_word_embeddings = true;
  TestTensors tensors = wide_tensors(config, 6);
  std::mt19937_64 random(6);
  std::normal_distribution<float> normal(0.0f, 0.09f);
  const auto factor = [&](int64_t rows, int64_t columns) {
    TestTensor tensor = {DType::kF32, {rows, columns}, {}};
    for (int64_t i = 0; i < rows * columns; ++i) tensor.values.push_back(normal(random));
    return tensor;
  };
  for (const std::string which : {"gate", "up", "down"}) {
    const std::string stem = "model.layers.1.mlp." + which;
    const Shape dense = tensors.at(stem + "_proj.weight").shape;
    tensors.erase(stem + "_proj.weight");
    tensors[stem + "_v_proj.weight"] = factor(136, dense[1]);
    tensors[stem + "_u_proj.weight"] = factor(dense[0], 136);
  }
  expect_cpu_near_reference(config, quantized_tensors(config, tensors));
}

// The reference computes with scale · byte and nothing else. Its logits have the same bits as those
// of a float model with these numbers as weights.
TEST(Int8Model, ReferenceEqualsTheDequantizedModel) {
  for (const bool tied : {false, true}) {
    io::ModelConfig config = wide_config(io::Architecture::kQwen3);
    config.tie_word_embeddings = tied;
    const TestTensors rounded = quantized_tensors(config, wide_tensors(config, 8));
    TestTensors floats;
    for (const auto& [name, tensor] : rounded) {
      if (name.ends_with("_scale")) continue;
      TestTensor& copy = floats[name] = tensor;
      if (tensor.dtype != DType::kI8) continue;
      copy.dtype = DType::kF32;
      const TestTensor& scales = rounded.at(name + "_scale");
      for (size_t i = 0; i < copy.values.size(); ++i) {
        const size_t columns = copy.shape[1], groups = scales.shape[1];
        copy.values[i] *= scales.values[i / columns * groups + i % columns / 128];
      }
    }
    const auto backend = ops::make_reference_backend();
    const auto tokens = random_tokens(20, config.vocab_size, 3);
    const auto int8_model = load_tiny(config, rounded, *backend);
    ASSERT_TRUE(int8_model.ok()) << int8_model.error().message;
    const auto float_model = load_tiny(config, floats, *backend);
    ASSERT_TRUE(float_model.ok()) << float_model.error().message;
    EXPECT_EQ(root_mean_square_difference(all_logits(*int8_model, tokens),
                                          all_logits(*float_model, tokens)),
              0.0);
  }
}

}  // namespace
}  // namespace neuronmm::model
