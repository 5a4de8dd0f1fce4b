// Tests the choice of types against sizes that llama-quantize printed for its results.

#include "compress/block_rounding/block_types.h"

#include <gtest/gtest.h>

#include "model/tensor_specs.h"
#include "model/tiny_model.h"

namespace neuronmm::compress {
namespace {

using gguf_out::BlockType;

struct Sizes {
  int64_t hidden, inner, layers, heads, kv_heads, vocabulary;
  bool biases = false;
};

io::ModelConfig config_of(const Sizes& sizes) {
  io::ModelConfig config = model::tiny_config(io::Architecture::kLlama);
  config.hidden_size = sizes.hidden;
  config.intermediate_size = sizes.inner;
  config.num_hidden_layers = sizes.layers;
  config.layers.resize(static_cast<size_t>(sizes.layers));
  config.num_attention_heads = sizes.heads;
  config.num_key_value_heads = sizes.kv_heads;
  config.head_dim = sizes.hidden / sizes.heads;
  config.vocab_size = sizes.vocabulary;
  config.attention_bias = sizes.biases;
  config.tie_word_embeddings = true;
  return config;
}

double mebibytes(const io::ModelConfig& config, BlockType named) {
  const auto specs = model::tensor_specs(config);
  const BlockTypes types = choose_types(specs, config, named).types;
  int64_t bytes = 0;
  for (const io::TensorSpec& spec : specs) {
    int64_t size = 1;
    for (const int64_t extent : spec.shape) size *= extent;
    bytes += gguf_out::encoded_bytes(types.at(spec.name), size);
  }
  return static_cast<double>(bytes) / (1 << 20);
}

// "quant size" of `llama-quantize --imatrix` of llama-cpp-python 0.3.36, 2026-11-30, for
// SmolLM2-135M, whose rows of 576 fit no K type.
TEST(ChooseTypes, TakesAsManyBytesAsLlamaQuantize) {
  const io::ModelConfig smollm2 = config_of({576, 1536, 30, 9, 3, 49152});
  EXPECT_NEAR(mebibytes(smollm2, BlockType::kQ4_0), 85.93, 0.005);
  EXPECT_NEAR(mebibytes(smollm2, BlockType::kQ4_K), 98.87, 0.005);
  EXPECT_NEAR(mebibytes(smollm2, BlockType::kQ5_K), 105.21, 0.005);
  EXPECT_NEAR(mebibytes(smollm2, BlockType::kQ6_K), 130.27, 0.005);
  EXPECT_NEAR(mebibytes(smollm2, BlockType::kIq4Nl), 85.77, 0.005);
}

TEST(ChooseTypes, SaysWhichTypesDoNotFit) {
  const io::ModelConfig config = config_of({576, 1536, 2, 9, 3, 100});
  const ChosenTypes chosen = choose_types(model::tensor_specs(config), config, BlockType::kQ4_K);
  // Only rows of down fit.
  EXPECT_EQ(chosen.others.size(), 6U * 2);
  EXPECT_EQ(chosen.others.front().wanted, BlockType::kQ4_K);
  EXPECT_EQ(chosen.others.front().taken, BlockType::kQ5_0);
  EXPECT_EQ(chosen.types.at("model.layers.0.mlp.down_proj.weight"), BlockType::kQ4_K);
  EXPECT_EQ(chosen.types.at("model.embed_tokens.weight"), BlockType::kQ8_0);
  EXPECT_EQ(chosen.types.at("model.norm.weight"), BlockType::kF32);
}

TEST(ChooseTypes, RowsThatNoBlockDividesStayFloats) {
  EXPECT_EQ(type_for_row(BlockType::kQ4_K, 512), BlockType::kQ4_K);
  EXPECT_EQ(type_for_row(BlockType::kQ5_K, 544), BlockType::kQ5_1);
  EXPECT_EQ(type_for_row(BlockType::kQ6_K, 544), BlockType::kQ8_0);
  EXPECT_EQ(type_for_row(BlockType::kQ4_0, 545), BlockType::kF16);
  EXPECT_EQ(type_for_row(BlockType::kF32, 545), BlockType::kF32);
}

}  // namespace
}  // namespace neuronmm::compress
