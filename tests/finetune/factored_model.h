#pragma once
// Tiny models with random low-rank MLP weights, and examples to train them on.

#include <random>
#include <vector>

#include "finetune/trainable_model.h"
#include "model/tiny_model.h"
#include "ops/owned_tensor.h"

namespace neuronmm::finetune {

inline constexpr int64_t kTestRank = 5;

// random_tensors with every MLP matrix as two factors, except the last layer's up, which stays
// dense.
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

inline void write_model(const model::ModelFolder& folder, const io::ModelConfig& config,
                        const model::TestTensors& tensors) {
  folder.write_tensors(tensors);
  folder.write_text("config.json", model::config_json(config));
}

// Sequences of lengths 3 ... 12, the loss on some tail of each.
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

inline std::vector<const Example*> pointers(const std::vector<Example>& examples) {
  std::vector<const Example*> batch;
  for (const Example& example : examples) batch.push_back(&example);
  return batch;
}

inline TrainableModel load_or_throw(const ModelOptions& options) {
  auto model = TrainableModel::load(options);
  if (!model.ok()) throw std::runtime_error(model.error().message);
  return std::move(model).value();
}

}  // namespace neuronmm::finetune
