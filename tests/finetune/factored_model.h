#pragma once
// Tiny models with random MLP weights in every compressed form, and examples to train them on. The
// tests of fine-tuning use them. The functions throw where writing or loading fails.

#include <random>
#include <vector>

#include "finetune/dataset.h"
#include "model/tiny_model.h"
#include "ops/owned_tensor.h"

namespace neuronmm::finetune {

inline constexpr int64_t kTestRank = 5;

// Returns random_tensors with every MLP matrix as two factors. The last layer's up stays dense.
inline model::TestTensors factored_tensors(const io::ModelConfig& config, uint64_t seed) {
  model::TestTensors tensors = model::random_tensors(config, seed);
  std::mt19937_64 random(seed + 1);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    for (const char* const matrix : {"gate", "up", "down"}) {
      if (layer + 1 == config.num_hidden_layers && matrix == std::string("up")) continue;
      const std::string stem = fmt::format("model.layers.{}.mlp.{}_", layer, matrix);
      const Shape shape = tensors.at(stem + "proj.weight").shape;
      tensors.erase(stem + "proj.weight");
      tensors[stem + "u_proj.weight"] = {
          DType::kF32, {shape[0], kTestRank}, random_values(shape[0] * kTestRank, random, 0.4f)};
      tensors[stem + "v_proj.weight"] = {
          DType::kF32, {kTestRank, shape[1]}, random_values(shape[1] * kTestRank, random, 0.4f)};
    }
  }
  return tensors;
}

// Gives tensors of dense MLPs another form, with random weights.
class FormBuilder {
 public:
  FormBuilder(model::TestTensors& tensors, uint64_t seed) : tensors_(tensors), random_(seed) {}

  void set(const std::string& name, Shape shape) {
    const int64_t count = TensorView{DType::kF32, shape, nullptr}.size();
    tensors_[name] = {DType::kF32, std::move(shape), random_values(count, random_, 0.4f)};
  }
  // Adds `rank` pivots of n elements: every third element, beginning with element rank % 3.
  void set_pivots(const std::string& stem, int64_t rank, int64_t n, bool of_input) {
    std::vector<float> index;
    for (int64_t i = 0; i < rank; ++i) index.push_back(static_cast<float>(3 * i + rank % 3));
    tensors_[stem + "_pivots"] = {DType::kI32, {rank}, std::move(index)};
    set(stem + "_pivot_proj.weight", of_input ? Shape{rank, n - rank} : Shape{n - rank, rank});
  }

 private:
  model::TestTensors& tensors_;
  std::mt19937_64 random_;
};

// A model in one form: its tensors and its compression record.
struct CompressedModel {
  io::CompressionRecord record;
  model::TestTensors tensors;
};

// Returns a model in one of the forms "pivoted", "narrow", "neurons" and "mixed". In "mixed" the
// last layer is dense.
inline CompressedModel compressed_model(const io::ModelConfig& config, const std::string& form,
                                        uint64_t seed) {
  const int64_t hidden = config.hidden_size, layers = config.num_hidden_layers;
  CompressedModel model;
  model.record.method = "whitened";
  model.record.ratio = 0.2;
  model.record.block = 1;
  model.record.align = "nearest";
  model.record.form = form;
  model.tensors = model::random_tensors(config, seed);
  FormBuilder builder(model.tensors, seed + 1);
  for (int64_t layer = 0; layer < layers; ++layer) {
    io::MlpShape& shape = model.record.ranks.emplace_back();
    if (form == "mixed" && layer + 1 == layers) continue;
    const bool fewer_neurons = form == "neurons" || form == "mixed";
    const bool shares_input = form == "narrow" || form == "mixed",
               pivots_per_matrix = form == "pivoted";
    const int64_t neurons = fewer_neurons ? 13 - layer : config.intermediate_size;
    if (fewer_neurons) shape.neurons = neurons;
    const std::string prefix = fmt::format("model.layers.{}.mlp.", layer);
    if (shares_input) builder.set_pivots(prefix + "input", shape.input = 4, hidden, true);
    if (pivots_per_matrix) builder.set_pivots(prefix + "gate", shape.gate = 5, hidden, true);
    if (pivots_per_matrix) builder.set_pivots(prefix + "up", shape.up = 4, hidden, true);
    if (shares_input || pivots_per_matrix)
      builder.set_pivots(prefix + "down", shape.down = 5, hidden, false);
    builder.set(prefix + "gate_proj.weight", {neurons, pivots_per_matrix ? 5
                                                       : shares_input    ? 4
                                                                         : hidden});
    builder.set(prefix + "up_proj.weight",
                {neurons, pivots_per_matrix || shares_input ? 4 : hidden});
    builder.set(prefix + "down_proj.weight",
                {shares_input || pivots_per_matrix ? 5 : hidden, neurons});
  }
  return model;
}

// Writes the tensors and the config of a model to `folder`.
inline void write_model(const model::ModelFolder& folder, const io::ModelConfig& config,
                        const CompressedModel& formed) {
  folder.write_tensors(model::stored_tensors(config, formed.tensors));
  const auto text =
      io::with_compression_record(model::config_json(config), formed.record, "config.json");
  if (!text.ok()) throw std::runtime_error(text.error().message);
  folder.write_text("config.json", *text);
}

inline void write_model(const model::ModelFolder& folder, const io::ModelConfig& config,
                        const model::TestTensors& tensors) {
  folder.write_tensors(model::stored_tensors(config, tensors));
  folder.write_text("config.json", model::config_json(config));
}

// Returns sequences of 3 to 12 tokens with the loss on a random tail of each.
inline std::vector<Example> random_examples(int64_t count, int64_t vocab_size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Example> examples;
  for (int64_t i = 0; i < count; ++i) {
    const auto length = static_cast<int64_t>(3 + random() % 10);
    const auto from = static_cast<int64_t>(1 + random() % static_cast<uint64_t>(length - 1));
    examples.push_back({model::random_tokens(length, vocab_size, random()), from});
  }
  return examples;
}

}  // namespace neuronmm::finetune
