// Tests published files: the configs of real models, and safetensors that the reference library
// wrote.

#include <algorithm>

#include "io/checkpoint.h"
#include "io/model_config.h"
#include "io_test.h"
#include "test_data.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;

struct Published {
  const char* name;
  Architecture architecture;
  int64_t hidden, intermediate, layers, heads, kv_heads, head_dim, vocab, positions;
  double theta, eps, rope_factor;  // A factor of 0 means no scaling.
  bool tied;
  std::vector<int64_t> eos;
  DType dtype;
};
constexpr auto kLlama = Architecture::kLlama;
constexpr auto kQwen3 = Architecture::kQwen3;
const Published kPublished[] = {{"Llama-3.2-1B",
                                 kLlama,
                                 2048,
                                 8192,
                                 16,
                                 32,
                                 8,
                                 64,
                                 128256,
                                 131072,
                                 500000.0,
                                 1e-5,
                                 32.0,
                                 true,
                                 {128001},
                                 DType::kBF16},
                                {"Llama-3.2-3B",
                                 kLlama,
                                 3072,
                                 8192,
                                 28,
                                 24,
                                 8,
                                 128,
                                 128256,
                                 131072,
                                 500000.0,
                                 1e-5,
                                 32.0,
                                 true,
                                 {128001, 128008, 128009},
                                 DType::kBF16},
                                {"Llama-3.1-8B",
                                 kLlama,
                                 4096,
                                 14336,
                                 32,
                                 32,
                                 8,
                                 128,
                                 128256,
                                 131072,
                                 500000.0,
                                 1e-5,
                                 8.0,
                                 false,
                                 {128001},
                                 DType::kBF16},
                                {"Qwen3-0.6B",
                                 kQwen3,
                                 1024,
                                 3072,
                                 28,
                                 16,
                                 8,
                                 128,
                                 151936,
                                 40960,
                                 1e6,
                                 1e-6,
                                 0.0,
                                 true,
                                 {151645},
                                 DType::kBF16},
                                {"Qwen3-1.7B",
                                 kQwen3,
                                 2048,
                                 6144,
                                 28,
                                 16,
                                 8,
                                 128,
                                 151936,
                                 40960,
                                 1e6,
                                 1e-6,
                                 0.0,
                                 true,
                                 {151645},
                                 DType::kF16},
                                {"Qwen3-4B",
                                 kQwen3,
                                 2560,
                                 9728,
                                 36,
                                 32,
                                 8,
                                 128,
                                 151936,
                                 40960,
                                 1e6,
                                 1e-6,
                                 0.0,
                                 true,
                                 {151645},
                                 DType::kBF16},
                                {"Qwen3-8B",
                                 kQwen3,
                                 4096,
                                 12288,
                                 36,
                                 32,
                                 8,
                                 128,
                                 151936,
                                 40960,
                                 1e6,
                                 1e-6,
                                 0.0,
                                 false,
                                 {151645},
                                 DType::kF32}};

TEST(RealFiles, PublishedConfigsAreRead) {
  NMM_TEST_DATA_OR_SKIP(folder, "configs");
  for (const Published& expected : kPublished) {
    SCOPED_TRACE(expected.name);
    const auto config = ModelConfig::load(folder / (std::string(expected.name) + ".config.json"));
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_EQ(config->architecture, expected.architecture);
    EXPECT_EQ(config->hidden_size, expected.hidden);
    EXPECT_EQ(config->intermediate_size, expected.intermediate);
    EXPECT_EQ(config->num_hidden_layers, expected.layers);
    EXPECT_EQ(config->num_attention_heads, expected.heads);
    EXPECT_EQ(config->num_key_value_heads, expected.kv_heads);
    EXPECT_EQ(config->head_dim, expected.head_dim);
    EXPECT_EQ(config->vocab_size, expected.vocab);
    EXPECT_EQ(config->max_position_embeddings, expected.positions);
    EXPECT_EQ(config->ropes[0].theta, expected.theta);
    EXPECT_EQ(config->rms_norm_eps, expected.eps);
    const auto* const llama3 = std::get_if<Llama3RopeScaling>(&config->ropes[0].scaling);
    EXPECT_EQ(llama3 != nullptr ? llama3->factor : 0.0, expected.rope_factor);
    EXPECT_EQ(config->tie_word_embeddings, expected.tied);
    EXPECT_EQ(config->qk_norm == QkNorm::kPerHead, expected.architecture == kQwen3);
    EXPECT_EQ(config->eos_token_ids, expected.eos);
    EXPECT_EQ(config->dtype, expected.dtype);
    EXPECT_EQ(config->layers[0].window, 0);
  }
}

TEST(RealFiles, TinyConfigsAreRead) {
  NMM_TEST_DATA_OR_SKIP(folder, "oracles/hf-tiny");
  const auto mistral = ModelConfig::load(folder / "tiny_mistral_config.json");
  ASSERT_TRUE(mistral.ok()) << mistral.error().message;
  EXPECT_EQ(mistral->layers[0].window, 4);
  EXPECT_EQ(mistral->head_dim, 4);
  const auto qwen2 = ModelConfig::load(folder / "tiny_qwen2_config.json");
  ASSERT_TRUE(qwen2.ok()) << qwen2.error().message;
  EXPECT_TRUE(qwen2->attention_bias);
  const auto smollm2 = ModelConfig::load(folder / "tiny_smollm2_config.json");
  ASSERT_TRUE(smollm2.ok()) << smollm2.error().message;
  EXPECT_TRUE(smollm2->tie_word_embeddings);
  EXPECT_EQ(smollm2->ropes[0].theta, 100000.0);
}

TEST(RealFiles, SingleAndShardedTensorsAreEqual) {
  NMM_TEST_DATA_OR_SKIP(source, "oracles/hf-tiny");
  const TemporaryFolder single, sharded;
  fs::copy_file(source / "tiny_llama.safetensors", single / "model.safetensors");
  fs::copy_file(source / "tiny_llama.safetensors.index.json",
                sharded / "model.safetensors.index.json");
  for (const std::string shard :
       {"tiny_llama-00001-of-00002.safetensors", "tiny_llama-00002-of-00002.safetensors"})
    fs::copy_file(source / shard, sharded / shard);
  const auto one = Checkpoint::open(single.path()), two = Checkpoint::open(sharded.path());
  ASSERT_TRUE(one.ok()) << one.error().message;
  ASSERT_TRUE(two.ok()) << two.error().message;
  ASSERT_EQ(one->tensors().size(), 22u);
  ASSERT_EQ(two->tensors().size(), 22u);
  // The index has this number as total_size.
  EXPECT_EQ(two->size_bytes(), 4712);
  for (const auto& [name, tensor] : one->tensors()) {
    const auto other = two->require(name, tensor.shape);
    ASSERT_TRUE(other.ok()) << other.error().message;
    EXPECT_TRUE(std::equal(tensor.data, tensor.data + tensor.size_bytes(), other->data)) << name;
  }
  const auto config = ModelConfig::load(source / "tiny_llama_config.json");
  ASSERT_TRUE(config.ok());
  EXPECT_TRUE(
      one->require("model.embed_tokens.weight", {config->vocab_size, config->hidden_size}).ok());
}

}  // namespace
}  // namespace neuronmm::io
