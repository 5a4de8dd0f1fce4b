#pragma once
// The fixture of tests of whole compressions: tiny random models, which are compressed on the
// reference backend.

#include <cmath>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "compress/compress.h"
#include "compress/weight_formats.h"
#include "eval/watched_backend.h"
#include "model/tiny_model.h"
#include "model/transformer.h"
#include "text/small_tokenizer.h"

namespace neuronmm::compress {

namespace fs = std::filesystem;

inline constexpr int64_t kHidden = 32, kInner = 64, kLayers = 3, kMatrices = 3 * kLayers,
                         kRank = 16;
// The calibration text has this many tokens, in sequences of 62.
inline constexpr int64_t kTextTokens = 500, kSequences = 8;

inline io::ModelConfig small_config() {
  io::ModelConfig config = model::tiny_config(io::Architecture::kLlama);
  config.hidden_size = kHidden;
  config.intermediate_size = kInner;
  config.num_hidden_layers = kLayers;
  config.layers.resize(static_cast<size_t>(config.num_hidden_layers));
  config.head_dim = 8;
  config.vocab_size = 256;
  return config;
}

inline std::string random_text(int64_t length, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string text;
  for (int64_t i = 0; i < length; ++i) text += static_cast<char>('a' + random() % 26);
  return text;
}

class CompressTest : public testing::Test {
 protected:
  void SetUp() override {
    // A single thread is quick on a busy machine. Tests of several threads set the number
    // themselves.
    set_num_threads(1);
    write_model(input_, tensors_);
  }
  void TearDown() override {
    set_interrupted(false);
    set_num_threads(threads_);
  }

  void write_model(model::ModelFolder& folder, const model::TestTensors& tensors) const {
    folder.write_tensors(model::stored_tensors(config_, tensors));
    folder.write_text("config.json", model::config_json(config_));
    folder.write_text("tokenizer.json", text::small_tokenizer().dump());
    folder.write_text("generation_config.json", "{\"eos_token_id\": 1}");
  }
  // Replaces the model by a random one of another family.
  void use_family(io::Architecture architecture, bool biases = false) {
    const io::ModelConfig sizes = small_config();
    config_ = model::tiny_config(architecture);
    config_.hidden_size = sizes.hidden_size;
    config_.intermediate_size = sizes.intermediate_size;
    config_.num_hidden_layers = sizes.num_hidden_layers;
    config_.head_dim = sizes.head_dim;
    config_.vocab_size = sizes.vocab_size;
    if (architecture == io::Architecture::kGemma2) {
      config_.layers = {{.window = 3}, {}, {.window = 3}};
      config_.embedding_scale = std::sqrt(32.0);
    } else {
      config_.fill_layers({});
    }
    config_.attention_bias = config_.attention_output_bias = config_.mlp_bias = biases;
    tensors_ = model::random_tensors(config_, 20261130);
  }
  fs::path path(const std::string& name) const { return outputs_.path() / name; }
  // Returns a request with rank kRank, because K·N/(K + N)·0.75 = 16 for both shapes of this model.
  CompressRequest request(const std::string& out, Method method = Method::kWhitened) const {
    CompressRequest request;
    request.model = input_.path();
    request.out = path(out);
    request.rule = {0.25, 4};
    request.method = method;
    if (method != Method::kSvd) request.calibration = {{{"text.txt", text_}}};
    return request;
  }
  Result<CompressSummary> run(const CompressRequest& request, const OnMatrix& on_matrix = {}) {
    return compress(request, backend_, silent_, on_matrix);
  }
  CompressSummary run_well(const CompressRequest& request) {
    auto summary = run(request);
    if (!summary.ok()) throw std::runtime_error(summary.error().message);
    return std::move(summary).value();
  }
  // Expects the same command to write the same bytes on one thread and on three.
  void expect_threads_change_nothing(CompressRequest request) {
    for (const int threads : {1, 3}) {
      set_num_threads(threads);
      request.out = path(std::to_string(threads));
      run_well(request);
    }
    EXPECT_EQ(bytes("1"), bytes("3"));
    fs::remove_all(path("1"));
    fs::remove_all(path("3"));
  }
  void expect_refused(const CompressRequest& request, std::initializer_list<std::string> words) {
    const auto summary = run(request);
    ASSERT_FALSE(summary.ok());
    for (const std::string& word : words) {
      EXPECT_NE(summary.error().message.find(word), std::string::npos)
          << "no \"" << word << "\" in: " << summary.error().message;
    }
  }
  std::string bytes(const std::string& out, const std::string& file = "model.safetensors") const {
    std::ifstream stream(path(out) / file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  Matrix logits(const fs::path& folder, const std::vector<text::TokenId>& tokens) {
    auto transformer = model::Transformer::load(folder, backend_);
    if (!transformer.ok()) throw std::runtime_error(transformer.error().message);
    return model::all_logits(*transformer, tokens);
  }

  const int threads_ = num_threads();
  const std::string text_ = random_text(kTextTokens, 4);
  io::ModelConfig config_ = small_config();
  model::TestTensors tensors_ = model::random_tensors(config_, 20240601);
  model::ModelFolder input_, outputs_;
  eval::WatchedBackend backend_;
  Progress silent_;
};

inline std::string mlp_name(int64_t layer, MlpMatrix matrix, const char* ending) {
  return fmt::format("model.layers.{}.mlp.{}{}.weight", layer, matrix_name(matrix), ending);
}

}  // namespace neuronmm::compress
