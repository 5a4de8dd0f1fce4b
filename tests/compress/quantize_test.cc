// This file tests the rounding of whole models: dense ones, ones that were compressed before, and
// ones that are compressed in the same run.

#include "compress/quantize.h"

#include <cmath>
#include <fstream>
#include <limits>

#include <gtest/gtest.h>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "compress/compress.h"
#include "compress/oracle.h"
#include "compress/weight_formats.h"
#include "cpu/backend.h"
#include "io/quantization.h"
#include "model/tensor_specs.h"
#include "model/tiny_model.h"
#include "ops/quantize.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kQuantizedLayers = 2, kQuantizedMatrices = 3 * kQuantizedLayers;

io::ModelConfig small_config(bool tied) {
  io::ModelConfig config = model::tiny_config(io::Architecture::kQwen2);
  config.hidden_size = 144;  // a whole group of columns and a part of another
  config.intermediate_size = 288;
  config.num_hidden_layers = kQuantizedLayers;
  config.layers.resize(static_cast<size_t>(config.num_hidden_layers));
  config.tie_word_embeddings = tied;
  return config;
}

std::string bytes_of(const TensorView& tensor) {
  return {reinterpret_cast<const char*>(tensor.data), static_cast<size_t>(tensor.size_bytes())};
}

DoubleMatrix values_of(const ops::WeightView& weight) {
  DoubleMatrix matrix(weight.rows(), weight.columns());
  std::vector<double> row(static_cast<size_t>(weight.columns()));
  for (int64_t i = 0; i < weight.rows(); ++i) {
    ops::to_doubles(weight, i * weight.columns(), weight.columns(), row.data());
    for (int64_t j = 0; j < weight.columns(); ++j) matrix(i, j) = row[static_cast<size_t>(j)];
  }
  return matrix;
}

class Quantize : public testing::Test {
 protected:
  void SetUp() override { write(small_config(false)); }
  void TearDown() override { set_interrupted(false); }

  void write(const io::ModelConfig& config) {
    config_ = config;
    tensors_ = model::random_tensors(config, 20250712);
    write_tensors();
  }
  void write_tensors() {
    input_.write_tensors(tensors_);
    input_.write_text("config.json", model::config_json(config_));
    input_.write_text("generation_config.json", "{\"eos_token_id\": 1}");
  }
  fs::path path(const std::string& name) const { return outputs_.path() / name; }

  QuantizeSummary quantize_well(const fs::path& model, const std::string& out,
                                const QuantizedFormats& formats = {}) {
    const auto summary = run({.model = model, .out = path(out), .formats = formats, .force = true});
    if (!summary.ok()) throw std::runtime_error(summary.error().message);
    return *summary;
  }
  Result<QuantizeSummary> run(const QuantizeRequest& request, const OnMatrix& on_matrix = {}) {
    return quantize(request, *backend_, silent_, on_matrix);
  }
  io::Checkpoint open(const fs::path& folder) {
    auto checkpoint = io::Checkpoint::open(folder);
    if (!checkpoint.ok()) throw std::runtime_error(checkpoint.error().message);
    return std::move(checkpoint).value();
  }
  void compress_to(const std::string& out, WeightFormats weights, bool force = false) {
    CompressRequest request;
    request.model = input_.path();
    request.out = path(out);
    request.rule = {0.1, 8};
    request.method = Method::kSvd;
    request.weights = weights;
    request.force = force;
    const auto summary = compress(request, *cpu::make_backend(), silent_);
    if (!summary.ok()) throw std::runtime_error(summary.error().message);
  }
  void expect_loads(const std::string& out) {
    const auto backend = cpu::make_backend();
    const auto transformer = model::Transformer::load(path(out), *backend);
    ASSERT_TRUE(transformer.ok()) << transformer.error().message;
    EXPECT_TRUE(transformer->config().quantization.has_value());
  }
  void expect_refused(const fs::path& model, std::initializer_list<std::string> words) {
    const auto summary = run({.model = model, .out = path("refused")});
    ASSERT_FALSE(summary.ok());
    for (const std::string& word : words) {
      EXPECT_NE(summary.error().message.find(word), std::string::npos)
          << "no \"" << word << "\" in: " << summary.error().message;
    }
    EXPECT_FALSE(fs::exists(path("refused")));
  }

  io::ModelConfig config_;
  model::TestTensors tensors_;
  model::ModelFolder input_, outputs_;
  Progress silent_;
  std::unique_ptr<ops::Backend> backend_ = cpu::make_backend();
};

TEST_F(Quantize, AnUntiedModelWithoutAHeadIsRefusedBeforeAnyWork) {
  tensors_.erase("lm_head.weight");
  write_tensors();
  const auto refused = run({.model = input_.path(), .out = path("out")});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("lm_head.weight"), std::string::npos);
  EXPECT_FALSE(fs::exists(path("out.partial")));
}

TEST_F(Quantize, ADenseModelIsRoundedToInt8) {
  for (const bool tied : {false, true}) {
    SCOPED_TRACE(testing::Message() << "tied " << tied);
    write(small_config(tied));
    const QuantizeSummary summary = quantize_well(input_.path(), "out");
    const auto before = open(input_.path()), after = open(path("out"));
    EXPECT_EQ(before.has("lm_head.weight"), !tied);
    EXPECT_EQ(after.tensors().at("model.embed_tokens.weight").dtype == DType::kI8, tied);
    size_t count = before.tensors().size();
    for (const auto& [name, tensor] : before.tensors()) {
      const TensorView& stored = after.tensors().at(name);
      if (!model::is_linear(name, config_)) {
        EXPECT_EQ(stored.dtype, tensor.dtype);
        EXPECT_EQ(bytes_of(stored), bytes_of(tensor)) << name;
        continue;
      }
      ++count;
      const ops::QuantizedWeight expected = ops::quantize(tensor);
      EXPECT_EQ(bytes_of(stored), bytes_of(expected.view())) << name;
      EXPECT_EQ(bytes_of(after.tensors().at(name + "_scale")), bytes_of(expected.view().scales));
    }
    EXPECT_EQ(after.tensors().size(), count);
    EXPECT_EQ(summary.parameters, before.parameters());
    EXPECT_EQ(summary.parameters, after.parameters());
    EXPECT_EQ(summary.bytes_before, before.size_bytes());
    EXPECT_EQ(summary.bytes_after, after.size_bytes());
    EXPECT_TRUE(fs::exists(path("out") / "generation_config.json"));
    EXPECT_FALSE(fs::exists(path("out") / "work"));
    EXPECT_FALSE(fs::exists(path("out.partial")));
    expect_loads("out");
  }
}

TEST_F(Quantize, ADenseModelIsRoundedTo4And6Bits) {
  const QuantizedFormats formats = {.linear = {4, 16}, .lm_head = {6}};
  for (const bool tied : {false, true}) {
    SCOPED_TRACE(testing::Message() << "tied " << tied);
    write(small_config(tied));
    const QuantizeSummary summary = quantize_well(input_.path(), "out", formats);
    const auto before = open(input_.path()), after = open(path("out"));
    for (const auto& [name, tensor] : before.tensors()) {
      const TensorView& stored = after.tensors().at(name);
      if (!model::is_linear(name, config_)) {
        EXPECT_EQ(bytes_of(stored), bytes_of(tensor)) << name;
        continue;
      }
      const bool head = name == "lm_head.weight" || name == "model.embed_tokens.weight";
      const auto expected = ops::quantize(tensor, head ? formats.lm_head : formats.linear);
      EXPECT_EQ(stored.dtype, DType::kU8);
      EXPECT_EQ(bytes_of(stored), std::string(expected.values.begin(), expected.values.end()));
      EXPECT_EQ(bytes_of(after.tensors().at(name + "_scale")), bytes_of(expected.view().scales));
      ASSERT_EQ(after.has(name + "_group"), !head) << name;
      if (head) continue;
      EXPECT_EQ(bytes_of(after.tensors().at(name + "_group")), bytes_of(expected.view().groups));
    }
    EXPECT_EQ(summary.parameters, after.parameters());
    EXPECT_EQ(summary.bytes_after, after.size_bytes());
    const auto config = io::ModelConfig::load(path("out") / "config.json");
    ASSERT_TRUE(config.ok());
    EXPECT_EQ(config->quantization,
              (io::Quantization{{4, 16}, {{tied ? "embed_tokens" : "lm_head", {6}}}}));
    expect_loads("out");
  }
}

// A table of its own is rounded to nearest, to its own bits, and what the model looks up in it are
// the rounded rows.
TEST_F(Quantize, AnEmbeddingTableOfItsOwnHasItsOwnBits) {
  for (const int bits : {8, 6, 4}) {
    SCOPED_TRACE(bits);
    quantize_well(input_.path(), "out", quantized_formats(8, {}, {}, bits));
    const std::string name = "model.embed_tokens.weight";
    const auto before = open(input_.path()), after = open(path("out"));
    const auto expected = ops::quantize(before.tensors().at(name), {bits, bits == 4 ? 16 : 128});
    EXPECT_EQ(bytes_of(after.tensors().at(name)),
              std::string(expected.values.begin(), expected.values.end()));
    const auto config = io::ModelConfig::load(path("out") / "config.json");
    ASSERT_TRUE(config.ok());
    ASSERT_TRUE(config->quantization->exceptions.contains("embed_tokens"));
    EXPECT_EQ(config->quantization->exceptions.at("embed_tokens").bits, bits);
    const auto transformer = model::Transformer::load(path("out"), *backend_);
    ASSERT_TRUE(transformer.ok()) << transformer.error().message;
    EXPECT_LT(after.size_bytes(), before.size_bytes());
  }
}

TEST_F(Quantize, ATableOf16BitsStaysAsItIs) {
  for (const bool tied : {false, true}) {
    SCOPED_TRACE(testing::Message() << "tied " << tied);
    write(small_config(tied));
    quantize_well(input_.path(), "out", quantized_formats(4, {}, {}, 16));
    const std::string name = "model.embed_tokens.weight";
    const auto before = open(input_.path()), after = open(path("out"));
    EXPECT_EQ(bytes_of(after.tensors().at(name)), bytes_of(before.tensors().at(name)));
    expect_loads("out");
  }
}

TEST_F(Quantize, DifferentBitsOfATiedTableAndItsHeadAreRefused) {
  const QuantizeRequest asked = {
      .model = input_.path(), .out = path("refused"), .formats = quantized_formats(4, {}, 8, 6)};
  EXPECT_TRUE(run(asked).ok()) << "two tables may differ";
  fs::remove_all(path("refused"));
  write(small_config(true));
  const auto refused = run(asked);
  ASSERT_FALSE(refused.ok());
  for (const char* const word : {"LM head", "6 for the table", "8 for the head"}) {
    EXPECT_NE(refused.error().message.find(word), std::string::npos) << refused.error().message;
  }
  for (const auto& [head, table] :
       {std::pair<std::optional<int>, std::optional<int>>{8, {}}, {std::nullopt, 8}, {8, 8}}) {
    quantize_well(input_.path(), "out", quantized_formats(4, {}, head, table));
    const auto config = io::ModelConfig::load(path("out") / "config.json");
    ASSERT_TRUE(config.ok());
    EXPECT_EQ(config->quantization->format_of("model.embed_tokens.weight").bits, 8);
  }
}

// Fitted factors of 4 bits are nearer to the product than factors that are rounded one by one.
TEST_F(Quantize, FactorsOf4BitsAreFittedToEachOther) {
  const LowBitFormat format = {4, 16};
  compress_to("small", kOriginal);
  quantize_well(path("small"), "out", {format, format});
  const auto before = open(path("small")), after = open(path("out"));
  const auto original = io::ModelConfig::load(path("small") / "config.json");
  const auto loaded = io::ModelConfig::load(path("out") / "config.json");
  ASSERT_TRUE(original.ok() && loaded.ok());
  for (int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
    const auto floats = model::layer_weights(before, *original, layer);
    const auto low = model::layer_weights(after, *loaded, layer);
    ASSERT_TRUE(floats.ok() && low.ok());
    const ops::LinearWeight &f = floats->mlp.up, &q = low->mlp.up;
    const auto product_of = [](const ops::WeightView& v_t, const ops::WeightView& u_t) {
      std::vector<double> product(static_cast<size_t>(v_t.rows() * u_t.columns()));
      std::vector<double> v(static_cast<size_t>(v_t.columns()));
      std::vector<double> u(static_cast<size_t>(u_t.columns()));
      for (int64_t i = 0; i < v_t.rows(); ++i) {
        ops::to_doubles(v_t, i * v_t.columns(), v_t.columns(), v.data());
        for (int64_t r = 0; r < u_t.rows(); ++r) {
          ops::to_doubles(u_t, r * u_t.columns(), u_t.columns(), u.data());
          for (size_t j = 0; j < u.size(); ++j) {
            product[static_cast<size_t>(i) * u.size() + j] += v[static_cast<size_t>(r)] * u[j];
          }
        }
      }
      return product;
    };
    const ops::QuantizedWeight v = ops::quantize(f.v_t, format), u = ops::quantize(f.u_t, format);
    const auto exact = product_of(f.v_t, f.u_t), fitted = product_of(q.v_t, q.u_t);
    const auto rounded = product_of(v.view(), u.view());
    double of_fitted = 0, of_rounded = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      of_fitted += std::pow(exact[i] - fitted[i], 2);
      of_rounded += std::pow(exact[i] - rounded[i], 2);
    }
    EXPECT_LT(of_fitted, of_rounded) << "layer " << layer;
  }
  expect_loads("out");
}

// Fitted factors of 8 bits are nearer to the product than factors that are rounded one by one.
TEST_F(Quantize, FactorsOfInt8AreFittedToEachOther) {
  compress_to("small", kOriginal);
  const QuantizeSummary summary = quantize_well(path("small"), "out");
  const auto before = open(path("small")), after = open(path("out"));
  EXPECT_EQ(summary.parameters, after.parameters());
  const auto config = io::ModelConfig::load(path("out") / "config.json");
  ASSERT_TRUE(config.ok() && config->compression.has_value());
  // Products in long double are slow, so only one layer is compared.
  for (const int64_t layer : {kQuantizedLayers - 1}) {
    const auto floats = model::layer_weights(before, config_, layer);
    const auto int8 = model::layer_weights(after, *config, layer);
    ASSERT_TRUE(floats.ok() && int8.ok());
    for (const MlpMatrix which : kMlpMatrices) {
      const auto product = [](const DoubleMatrix& v_t, const DoubleMatrix& u_t) {
        return LongMatrix(v_t) * LongMatrix(u_t);
      };
      const ops::LinearWeight &f = weight_of(floats->mlp, which), &q = weight_of(int8->mlp, which);
      ASSERT_TRUE(q.u_t.quantized() && q.v_t.quantized());
      const LongMatrix exact = product(to_double_matrix(f.v_t), to_double_matrix(f.u_t));
      const LongMatrix fitted = product(values_of(q.v_t), values_of(q.u_t));
      const ops::QuantizedWeight v = ops::quantize(f.v_t), u = ops::quantize(f.u_t);
      const LongMatrix rounded = product(values_of(v.view()), values_of(u.view()));
      EXPECT_LT((exact - fitted).energy(), (exact - rounded).energy())
          << "layer " << layer << " " << matrix_name(which);
    }
  }
  expect_loads("out");
}

// Returns whether the weight of an MLP belongs to a map of pivots.
bool has_map(const io::Checkpoint& checkpoint, const std::string& name) {
  const size_t matrix = name.rfind('.', name.rfind(".weight") - 1);
  const std::string mlp = name.substr(0, matrix + 1), which = name.substr(matrix + 1);
  if (name.find(".mlp.") == std::string::npos || which.find("pivot") != std::string::npos) {
    return false;
  }
  const std::string own = which.substr(0, which.find('_')) + "_pivot_proj.weight";
  return checkpoint.has(mlp + own) ||
         (!which.starts_with("down") && checkpoint.has(mlp + "input_pivot_proj.weight"));
}

// In every form, maps are rounded as any linear weight is. The indices of pivots and the record
// stay the same.
TEST_F(Quantize, ModelsWithPivotsKeepTheirForm) {
  const std::pair<const char*, std::vector<io::MlpShape>> forms[] = {
      {"pivoted", {{40, 130, 70}, {1, 143, 0}}},
      {"narrow", {{0, 0, 70, 100}, {0, 0, 8, 8}}},
      {"neurons", {{0, 0, 0, 0, 100}, {0, 0, 0, 0, 288}}},
      {"mixed", {{0, 0, 70, 100, 200}, {0, 0, 0, 0, 30}}}};
  for (const auto& [form, shapes] : forms) {
    SCOPED_TRACE(form);
    io::ModelConfig config = small_config(false);
    config.compression = model::tiny_record(form, shapes);
    write(config);
    const QuantizeSummary summary = quantize_well(input_.path(), "out");
    const auto before = open(input_.path()), after = open(path("out"));
    EXPECT_EQ(summary.parameters, before.parameters());
    EXPECT_EQ(summary.parameters, after.parameters());
    for (const auto& [name, tensor] : before.tensors()) {
      const TensorView& stored = after.tensors().at(name);
      const bool linear = model::is_linear(name, config_);
      EXPECT_EQ(stored.dtype, linear ? DType::kI8 : tensor.dtype) << name;
      // Weights with a map are fitted to it (WeightsAreFittedToTheirRoundedMaps).
      if (linear && has_map(before, name)) continue;
      EXPECT_EQ(bytes_of(stored),
                linear ? bytes_of(ops::quantize(tensor).view()) : bytes_of(tensor))
          << name;
    }
    const auto written = io::ModelConfig::load(path("out") / "config.json");
    ASSERT_TRUE(written.ok()) << written.error().message;
    EXPECT_EQ(written->compression->form, form);
    EXPECT_EQ(written->compression->ranks, shapes);
    expect_loads("out");
    std::ifstream file(path("out") / "README.md");
    const std::string card{std::istreambuf_iterator<char>(file), {}};
    for (const std::string& word :
         {fmt::format("| form | {}: ", form), std::string("| sizes | "),
          std::string(form == std::string("neurons") ? "- pruned" : "- low-rank")}) {
      EXPECT_NE(card.find(word), std::string::npos) << word << " in:\n" << card;
    }
  }
}

// Returns [I; map] for a map [others, r].
DoubleMatrix with_identity(const DoubleMatrix& map) {
  const int64_t rank = map.columns();
  DoubleMatrix all(rank + map.rows(), rank);
  for (int64_t j = 0; j < rank; ++j) {
    all(j, j) = 1.0;
    for (int64_t i = 0; i < map.rows(); ++i) all(rank + i, j) = map(i, j);
  }
  return all;
}

// The weight that belongs to a rounded map brings their product as near to the old product as the
// solution by Householder reflections does. The old weight, rounded by itself, is worse.
TEST_F(Quantize, WeightsAreFittedToTheirRoundedMaps) {
  io::ModelConfig config = small_config(false);
  config.compression = model::tiny_record("pivoted", {{40, 130, 70}, {70, 20, 100}});
  write(config);
  quantize_well(input_.path(), "out");
  const auto before = open(input_.path()), after = open(path("out"));
  const auto written = io::ModelConfig::load(path("out") / "config.json");
  ASSERT_TRUE(written.ok());
  for (int64_t layer = 0; layer < kQuantizedLayers; ++layer) {
    const auto floats = model::layer_weights(before, config_, layer);
    const auto int8 = model::layer_weights(after, *written, layer);
    ASSERT_TRUE(floats.ok() && int8.ok());
    for (const MlpMatrix which : kMlpMatrices) {
      SCOPED_TRACE(fmt::format("layer {} {}", layer, matrix_name(which)));
      const ops::LinearWeight &f = weight_of(floats->mlp, which), &q = weight_of(int8->mlp, which);
      const bool of_input = !f.in.empty();
      const auto oriented = [&](const ops::WeightView& weight) {
        const DoubleMatrix matrix = values_of(weight);
        return of_input ? transposed(matrix) : matrix;
      };
      const auto map = [&](const ops::LinearWeight& weight) {
        return with_identity(oriented((of_input ? weight.in : weight.out).map_t));
      };
      const LongMatrix exact = LongMatrix(map(f)) * LongMatrix(oriented(f.w_t));
      const auto error = [&](const DoubleMatrix& weight) {
        return (exact - LongMatrix(map(q)) * LongMatrix(weight)).energy();
      };
      const auto product = multiply(map(f), Transpose::kNo, oriented(f.w_t), Transpose::kNo);
      const auto best = least_squares(map(q), product);
      ASSERT_TRUE(best.ok());
      DoubleMatrix rounded = of_input ? transposed(*best) : *best;
      round_to(LowBitFormat{}, rounded);
      const long double wanted = error(of_input ? transposed(rounded) : rounded);
      EXPECT_LT(error(oriented(q.w_t)), 1.001L * wanted);
      EXPECT_LT(wanted, error(oriented(ops::quantize(f.w_t).view())));
    }
  }
}

TEST_F(Quantize, CompressionCanRoundInTheSameRun) {
  for (const WeightFormats& weights : {kInt8, kInt6, kInt4}) {
    for (const bool tied : {false, true}) {
      SCOPED_TRACE(fmt::format("{} tied {}", weights_text(weights), tied));
      write(small_config(tied));
      compress_to("out", weights, true);
      const auto config = io::ModelConfig::load(path("out") / "config.json");
      ASSERT_TRUE(config.ok()) << config.error().message;
      ASSERT_TRUE(config->quantization && config->compression.has_value());
      // `quantize` records the same formats for the dense model.
      quantize_well(input_.path(), "dense", *weights);
      const auto dense = io::ModelConfig::load(path("dense") / "config.json");
      EXPECT_EQ(config->quantization, dense->quantization);
      // Weights outside of MLPs are rounded to nearest. factorize_test.cc tests the factors of
      // MLPs.
      const auto nearest = open(path("dense")), after = open(path("out"));
      for (const auto& [name, tensor] : nearest.tensors()) {
        if (name.find(".mlp.") != std::string::npos) continue;
        EXPECT_EQ(bytes_of(after.tensors().at(name)), bytes_of(tensor)) << name;
      }
      for (const auto& [name, tensor] : after.tensors()) {
        if (!model::is_linear(name, config_)) continue;
        const int bits = config->quantization->format_of(name).bits;
        EXPECT_EQ(tensor.dtype, bits == 8 ? DType::kI8 : DType::kU8) << name;
        EXPECT_EQ(after.has(name + "_group"), bits == 4) << name;
      }
      expect_loads("out");
    }
  }
}

// The folder holds the factors that were fitted to each other: u_t is the rounded optimum for the
// v_t that is stored.
TEST_F(Quantize, StoredFactorsAreThoseThatWereFitted) {
  compress_to("floats", kOriginal);
  for (const WeightFormats& weights : {kInt8, kInt6, kInt4}) {
    SCOPED_TRACE(weights_text(weights));
    compress_to("out", weights, true);
    const auto before = open(input_.path()), floats = open(path("floats")),
               after = open(path("out"));
    const auto config = io::ModelConfig::load(path("out") / "config.json");
    ASSERT_TRUE(config.ok());
    const auto dense = model::layer_weights(before, config_, 0);
    const auto factors = model::layer_weights(floats, config_, 0);
    const auto few = model::layer_weights(after, *config, 0);
    ASSERT_TRUE(dense.ok() && factors.ok() && few.ok());
    for (const MlpMatrix which : kMlpMatrices) {
      const DoubleMatrix w_t = to_double_matrix(weight_of(dense->mlp, which).w_t);
      const ops::LinearWeight& found = weight_of(few->mlp, which);
      const ops::LinearWeight& float_factors = weight_of(factors->mlp, which);
      const auto best = least_squares(values_of(found.v_t), w_t);
      ASSERT_TRUE(best.ok());
      DoubleMatrix nearest = *best;
      round_to(DType::kF32, nearest);
      round_to(weights->linear, nearest);
      const auto error = [&](const DoubleMatrix& v_t, const DoubleMatrix& u_t) {
        return (LongMatrix(w_t) - LongMatrix(v_t) * LongMatrix(u_t)).energy();
      };
      const long double lost = error(values_of(found.v_t), values_of(found.u_t));
      EXPECT_LT(lost, 1.001L * error(values_of(found.v_t), nearest));
      DoubleMatrix v_t = to_double_matrix(float_factors.v_t),
                   u_t = to_double_matrix(float_factors.u_t);
      round_to(weights->linear, v_t);
      round_to(weights->linear, u_t);
      EXPECT_LT(lost, error(v_t, u_t)) << matrix_name(which);
    }
  }
}

TEST_F(Quantize, AnInterruptedRunContinuesWhereItStopped) {
  compress_to("small", kOriginal);
  quantize_well(path("small"), "whole");
  for (const int64_t stop : {int64_t{1}, kQuantizedMatrices}) {
    int64_t done = 0;
    const auto stopped = run({.model = path("small"), .out = path("parts"), .force = true},
                             [&](const MatrixReport&) {
                               if (++done == stop) set_interrupted(true);
                             });
    ASSERT_FALSE(stopped.ok());
    EXPECT_EQ(stopped.error().kind, Error::Kind::kInterrupted);
    EXPECT_NE(stopped.error().message.find("kept in"), std::string::npos);
    EXPECT_FALSE(fs::exists(path("parts")));
    const auto kept = fs::directory_iterator(path("parts.partial") / "work");
    // the settings are a file, too
    const auto files = std::distance(fs::begin(kept), fs::end(kept));
    EXPECT_GE(files, stop + 1);
    EXPECT_LE(files, stop + num_threads());  // each thread may have finished one more
    set_interrupted(false);
    quantize_well(path("small"), "parts");
    EXPECT_EQ(bytes_of(open(path("parts")).tensors().begin()->second),
              bytes_of(open(path("whole")).tensors().begin()->second));
    EXPECT_FALSE(fs::exists(path("parts.partial")));
    fs::remove_all(path("parts"));
  }
}

TEST_F(Quantize, RefusesModelsThatCannotBeRounded) {
  quantize_well(input_.path(), "int8");
  expect_refused(path("int8"), {"int8", "already", "original"});
  expect_refused(path("nowhere"), {"nowhere"});
  const std::string name = "model.layers.1.self_attn.k_proj.weight";
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    tensors_.at(name).values[40] = bad;
    write_tensors();
    expect_refused(input_.path(), {name, "NaN or infinity"});
  }
}

TEST_F(Quantize, Int8ModelsAreNotCompressed) {
  quantize_well(input_.path(), "int8");
  CompressRequest request;
  request.model = path("int8");
  request.out = path("out");
  request.rule = {0.1, 8};
  request.method = Method::kSvd;
  const auto summary = compress(request, *cpu::make_backend(), silent_);
  ASSERT_FALSE(summary.ok());
  EXPECT_NE(summary.error().message.find("bits 8, 6 or 4"), std::string::npos);
}

}  // namespace
}  // namespace neuronmm::compress
