#pragma once
// Helpers of this folder's tests: tiny models on a backend that can be watched, and Hugging Face's
// oracles as model folders.

#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/interrupt.h"
#include "base/progress.h"
#include "eval/watched_backend.h"
#include "model/tiny_model.h"
#include "test_data.h"

namespace neuronmm::eval {

using model::random_tokens;
using text::TokenId;

template <typename T>
T value_of(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().message);
  return std::move(result).value();
}

template <typename T>
std::string message_of(const Result<T>& result) {
  return result.ok() ? "no error" : result.error().message;
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A fixture with a one-layer model of vocabulary 19 and 64 positions. A forward call is one call of
// attention.
class EvalTest : public testing::Test {
 protected:
  EvalTest() { config_.num_hidden_layers = 1; }
  void TearDown() override { set_interrupted(false); }

  model::Transformer random_model(uint64_t seed) const {
    return load(model::random_tensors(config_, seed));
  }
  model::Transformer load(const model::TestTensors& tensors) const {
    return value_of(model::load_tiny(config_, tensors, backend_));
  }

  io::ModelConfig config_ = model::tiny_config(io::Architecture::kLlama);
  WatchedBackend backend_;
  Progress silent_;
};

// A model and the logits that Hugging Face transformers (or an fp64 reference) gave for it.
struct Oracle {
  model::Transformer transformer;
  std::string logits_json;
};
inline Oracle load_oracle(const std::filesystem::path& source, const std::string& name,
                          const ops::Backend& backend) {
  const model::ModelFolder folder;
  folder.copy_file(source / (name + ".safetensors"), "model.safetensors");
  folder.copy_file(source / (name + "_config.json"), "config.json");
  std::ifstream file(source / (name + "_logits.json"));
  return {value_of(model::Transformer::load(folder.path(), backend)),
          std::string(std::istreambuf_iterator<char>(file), {})};
}
inline const char* const kOracles[] = {"tiny_llama", "tiny_qwen2", "tiny_smollm2", "tiny_mistral"};

}  // namespace neuronmm::eval
