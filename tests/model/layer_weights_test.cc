// This test loads checkpoints that do not fit their config: all are refused with the tensor's name.

#include <gtest/gtest.h>

#include "model/tiny_model.h"
#include "ops/reference.h"

namespace neuronmm::model {
namespace {

class LayerWeightsTest : public testing::Test {
 protected:
  // Returns the error of loading `tensors`, or "" if they load.
  std::string load_error() const {
    const auto backend = ops::make_reference_backend();
    const auto transformer = load_tiny(config, tensors, *backend);
    return transformer.ok() ? "" : transformer.error().message;
  }
  void expect_error_naming(const std::vector<std::string>& parts) const {
    const std::string message = load_error();
    EXPECT_NE(message, "");
    for (const std::string& part : parts)
      EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
  }
  static TestTensor zeros(Shape shape, DType dtype = DType::kF32) {
    const auto count = static_cast<size_t>(TensorView{dtype, shape, nullptr}.size());
    return {dtype, std::move(shape), std::vector<float>(count)};
  }
  void use_factors(int64_t rank) {
    tensors.erase(kMlp + "gate_proj.weight");
    tensors[kMlp + "gate_v_proj.weight"] = zeros({rank, 16});
    tensors[kMlp + "gate_u_proj.weight"] = zeros({24, rank});
  }

  const std::string kMlp = "model.layers.1.mlp.";
  const std::string kAttention = "model.layers.1.self_attn.";
  io::ModelConfig config = tiny_config(io::Architecture::kLlama);
  TestTensors tensors = random_tensors(config, 1);
};

TEST_F(LayerWeightsTest, ReadsWhatTheConfigDescribes) {
  EXPECT_EQ(load_error(), "");
  use_factors(4);
  EXPECT_EQ(load_error(), "");
}

TEST_F(LayerWeightsTest, VProjIsOurUAndUProjIsOurV) {
  use_factors(4);
  const ModelFolder folder;
  folder.write_tensors(tensors);
  const auto checkpoint = io::Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const auto weights = layer_weights(*checkpoint, config, 1);
  ASSERT_TRUE(weights.ok()) << weights.error().message;
  EXPECT_EQ(weights->mlp.gate.u_t.shape, (Shape{4, 16}));  // [r, K]
  EXPECT_EQ(weights->mlp.gate.v_t.shape, (Shape{24, 4}));  // [N, r]
  EXPECT_EQ(weights->mlp.gate.rank(), 4);
  EXPECT_FALSE(weights->mlp.up.low_rank());
  EXPECT_TRUE(weights->q_norm.empty());
}

TEST_F(LayerWeightsTest, RefusesOneFactorWithoutTheOther) {
  use_factors(4);
  tensors.erase(kMlp + "gate_u_proj.weight");
  expect_error_naming({"gate_u_proj", "found only", "gate_v_proj"});
  use_factors(4);
  tensors.erase(kMlp + "gate_v_proj.weight");
  expect_error_naming({"gate_v_proj", "found only", "gate_u_proj"});
}

TEST_F(LayerWeightsTest, RefusesBothFormsAndNeither) {
  const TestTensor dense = tensors.at(kMlp + "gate_proj.weight");
  use_factors(4);
  tensors[kMlp + "gate_proj.weight"] = dense;
  expect_error_naming({"mlp.gate", "both"});
  tensors = random_tensors(config, 1);
  tensors.erase(kMlp + "down_proj.weight");
  expect_error_naming({"model.layers.1.mlp.down_proj.weight", "neither"});
}

TEST_F(LayerWeightsTest, RefusesFactorsThatDoNotFit) {
  use_factors(4);
  tensors[kMlp + "gate_u_proj.weight"] = zeros({24, 5});
  expect_error_naming({"gate_v_proj", "[4, 16]", "[24, 5]"});
  tensors[kMlp + "gate_u_proj.weight"] = zeros({25, 4});
  expect_error_naming({"gate_u_proj", "[24, 4]", "[25, 4]"});
  use_factors(4);
  tensors[kMlp + "gate_v_proj.weight"] = zeros({4, 17});
  expect_error_naming({"gate_v_proj", "[4, 16]", "[4, 17]"});
  use_factors(0);
  expect_error_naming({"gate_v_proj", "r > 0"});
  use_factors(4);
  tensors[kMlp + "gate_v_proj.weight"] = zeros({64});
  expect_error_naming({"gate_v_proj", "[64]"});
  // The names are crossed: if u and v are swapped, their shapes are wrong.
  use_factors(4);
  std::swap(tensors[kMlp + "gate_v_proj.weight"], tensors[kMlp + "gate_u_proj.weight"]);
  expect_error_naming({"gate_v_proj", "found [24, 4] and [4, 16]"});
}

TEST_F(LayerWeightsTest, ChecksTheRecordedRanks) {
  use_factors(4);
  config.compression = io::CompressionRecord{};
  config.compression->ranks = {{0, 0, 0}, {4, 0, 0}};
  EXPECT_EQ(load_error(), "");
  config.compression->ranks[1].gate = 8;
  expect_error_naming({"model.layers.1.mlp", "8, 0, 0", "4, 0, 0", "config.json"});
  config.compression->ranks.pop_back();
  expect_error_naming({"ranks of 2 layers", "found 1"});
}

TEST_F(LayerWeightsTest, RefusesMissingAndMisshapenTensors) {
  for (const std::string& name :
       {std::string("model.embed_tokens.weight"), std::string("model.norm.weight"),
        kAttention + "k_proj.weight", std::string("model.layers.0.input_layernorm.weight")}) {
    const TestTensor saved = tensors.at(name);
    tensors.erase(name);
    expect_error_naming({name});
    tensors[name] = zeros({7, 7});
    expect_error_naming({name, "[7, 7]"});
    tensors[name] = saved;
  }
  EXPECT_EQ(load_error(), "");
}

TEST_F(LayerWeightsTest, RefusesAnUntiedModelWithoutLmHead) {
  tensors.erase("lm_head.weight");
  expect_error_naming({"lm_head.weight", "tie_word_embeddings false"});
  config.tie_word_embeddings = true;
  EXPECT_EQ(load_error(), "");
}

// transformers 5 takes the tensor, and transformers 4 takes the table.
TEST_F(LayerWeightsTest, RefusesATiedHeadOfOtherValues) {
  config.tie_word_embeddings = true;
  expect_error_naming({"tie_word_embeddings", "lm_head.weight", "row 0"});
  tensors["lm_head.weight"] = tensors.at("model.embed_tokens.weight");
  EXPECT_EQ(load_error(), "");
  tensors["lm_head.weight"].values.back() += 1.0f;
  expect_error_naming({"lm_head.weight", "differs"});
}

TEST_F(LayerWeightsTest, RefusesWeightsThatTheConfigDoesNotDescribe) {
  // AutoGPTQ writes biases of zeros for modules without any.
  tensors[kAttention + "q_proj.bias"] = zeros({24});
  EXPECT_EQ(load_error(), "");
  tensors[kAttention + "q_proj.bias"].values[23] = 0.5f;
  expect_error_naming({kAttention + "q_proj.bias", "LlamaForCausalLM"});
  tensors.erase(kAttention + "q_proj.bias");
  tensors[kAttention + "q_norm.weight"] = zeros({6});
  expect_error_naming({kAttention + "q_norm.weight"});
  tensors.erase(kAttention + "q_norm.weight");
  // Old exports have it, and it is harmless.
  tensors[kAttention + "rotary_emb.inv_freq"] = zeros({3});
  EXPECT_EQ(load_error(), "");
}

TEST_F(LayerWeightsTest, AttentionBiasAndQkNormAreRequiredWhenConfigured) {
  config = tiny_config(io::Architecture::kQwen2);
  expect_error_naming({"q_proj.bias"});
  config = tiny_config(io::Architecture::kQwen3);
  expect_error_naming({"q_norm.weight"});
}

TEST_F(LayerWeightsTest, LlamasAttentionBiasIncludesTheOutputProjection) {
  config.attention_bias = config.attention_output_bias = true;
  expect_error_naming({"proj.bias"});
  tensors = random_tensors(config, 1);
  EXPECT_EQ(load_error(), "");
  tensors[kAttention + "o_proj.bias"] = zeros({24});
  expect_error_naming({"o_proj.bias", "[16]", "[24]"});
}

}  // namespace
}  // namespace neuronmm::model
