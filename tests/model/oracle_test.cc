// This test compares with logits published by other implementations: Hugging Face transformers and
// fp64 references.

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "model/backends.h"
#include "model/tiny_model.h"
#include "test_data.h"

namespace neuronmm::model {
namespace {

// The published logits are fp32 or better, and at most 5 in magnitude.
constexpr double kLogitTolerance = 1e-4;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void expect_logits(const Transformer& transformer, const std::vector<TokenId>& tokens,
                   const std::vector<std::vector<double>>& expected) {
  const Matrix logits = all_logits(transformer, tokens);
  ASSERT_EQ(logits.rows(), static_cast<int64_t>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(logits.columns(), static_cast<int64_t>(expected[i].size()));
    for (size_t j = 0; j < expected[i].size(); ++j)
      ASSERT_NEAR(logits.row(static_cast<int64_t>(i))[j], expected[i][j], kLogitTolerance)
          << "position " << i << " token " << j;
  }
}

class HfTiny : public OnBackend {
 protected:
  void check(const ModelFolder& folder, const std::filesystem::path& logits_json) {
    const auto transformer = Transformer::load(folder.path(), *backend);
    ASSERT_TRUE(transformer.ok()) << transformer.error().message;
    const auto json = nlohmann::json::parse(read_file(logits_json));
    ASSERT_FALSE(json["sequences"].empty());
    for (size_t s = 0; s < json["sequences"].size(); ++s) {
      SCOPED_TRACE(s);
      expect_logits(*transformer, json["sequences"][s], json["logits"][s]);
    }
  }
};
NMM_ON_ALL_BACKENDS(HfTiny);

TEST_P(HfTiny, LogitsOfModelsInOneFileMatch) {
  NMM_TEST_DATA_OR_SKIP(data, "oracles/hf-tiny");
  for (const std::string name : {"tiny_llama", "tiny_qwen2", "tiny_smollm2", "tiny_mistral"}) {
    SCOPED_TRACE(name);
    const ModelFolder folder;
    folder.copy_file(data / (name + "_config.json"), "config.json");
    folder.copy_file(data / (name + ".safetensors"), "model.safetensors");
    check(folder, data / (name + "_logits.json"));
  }
}

TEST_P(HfTiny, LogitsOfAShardedModelMatch) {
  NMM_TEST_DATA_OR_SKIP(data, "oracles/hf-tiny");
  const ModelFolder folder;
  folder.copy_file(data / "tiny_llama_config.json", "config.json");
  folder.copy_file(data / "tiny_llama.safetensors.index.json", "model.safetensors.index.json");
  for (const char* shard :
       {"tiny_llama-00001-of-00002.safetensors", "tiny_llama-00002-of-00002.safetensors"})
    folder.copy_file(data / shard, shard);
  check(folder, data / "tiny_llama_logits.json");
}

class PagedInfer : public OnBackend {
 protected:
  // Loads the bf16 weights with the config of llama3_scaling_reference.json, with or without its
  // scaling.
  Result<Transformer> load(const std::filesystem::path& data, bool scaled) {
    nlohmann::json config = reference(data)["config"];
    config["architectures"] = {"LlamaForCausalLM"};
    config["model_type"] = "llama";
    if (!scaled) {  // as in tiny_llama_meta.txt
      config.erase("rope_scaling");
      config["rope_theta"] = 10000.0;
    }
    const ModelFolder folder;
    folder.write_text("config.json", config.dump());
    folder.copy_file(data / "tiny_llama.safetensors", "model.safetensors");
    return Transformer::load(folder.path(), *backend);
  }
  static nlohmann::json reference(const std::filesystem::path& data) {
    return nlohmann::json::parse(read_file(data / "llama3_scaling_reference.json"));
  }
};
NMM_ON_ALL_BACKENDS(PagedInfer);

TEST_P(PagedInfer, LogitsMatchTheGoldenFile) {
  NMM_TEST_DATA_OR_SKIP(data, "oracles/paged-infer");
  const auto transformer = load(data, false);
  ASSERT_TRUE(transformer.ok()) << transformer.error().message;
  // The file tiny_llama_golden.bin holds fp32 [40 positions, 112 tokens], for the tokens of both
  // references.
  const std::vector<TokenId> tokens = reference(data)["tokens"];
  const std::string bytes = read_file(data / "tiny_llama_golden.bin");
  const size_t vocab = 112;
  ASSERT_EQ(bytes.size(), tokens.size() * vocab * sizeof(float));
  std::vector<float> golden(tokens.size() * vocab);
  std::memcpy(golden.data(), bytes.data(), bytes.size());
  std::vector<std::vector<double>> expected;
  for (size_t i = 0; i < tokens.size(); ++i)
    expected.emplace_back(golden.begin() + static_cast<ptrdiff_t>(i * vocab),
                          golden.begin() + static_cast<ptrdiff_t>((i + 1) * vocab));
  expect_logits(*transformer, tokens, expected);
}

TEST_P(PagedInfer, GreedyTokensMatchWithLlama3Scaling) {
  NMM_TEST_DATA_OR_SKIP(data, "oracles/paged-infer");
  const auto transformer = load(data, true);
  ASSERT_TRUE(transformer.ok()) << transformer.error().message;
  // In the reference, greedy_tokens[i] is the most likely token after tokens[0..i].
  const std::vector<TokenId> tokens = reference(data)["tokens"];
  const Matrix logits = all_logits(*transformer, tokens);
  std::vector<TokenId> greedy;
  for (int64_t i = 0; i < logits.rows(); ++i) {
    const float* row = logits.row(i);
    greedy.push_back(static_cast<TokenId>(std::max_element(row, row + logits.columns()) - row));
  }
  EXPECT_EQ(greedy, reference(data)["greedy_tokens"].get<std::vector<TokenId>>());
}

}  // namespace
}  // namespace neuronmm::model
