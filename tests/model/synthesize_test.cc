// This test checks the list of a model's tensors against real models, and folders with random
// weights.

#include "model/synthesize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "io/checkpoint.h"
#include "io/safetensors_writer.h"
#include "model/tensor_specs.h"
#include "model/transformer.h"
#include "test_data.h"

namespace neuronmm::model {
namespace {

namespace fs = std::filesystem;

int64_t parameters(const io::ModelConfig& config) {
  int64_t total = 0;
  for (const io::TensorSpec& spec : tensor_specs(config))
    total += TensorView{spec.dtype, spec.shape, nullptr}.size();
  return total;
}

// The expected values are the published numbers of parameters.
TEST(TensorSpecs, ParameterCountsMatchPublishedModels) {
  NMM_TEST_DATA_OR_SKIP(folder, "configs");
  const std::pair<const char*, int64_t> published[] = {{"Llama-3.2-1B", 1'235'814'400},
                                                       {"Llama-3.2-3B", 3'212'749'824},
                                                       {"Llama-3.1-8B", 8'030'261'248},
                                                       {"Qwen3-4B", 4'022'468'096},
                                                       {"Qwen3-8B", 8'190'735'360}};
  for (const auto& [name, expected] : published) {
    const auto config = io::ModelConfig::load(folder / (std::string(name) + ".config.json"));
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_EQ(parameters(*config), expected) << name;
  }
}

// Real checkpoints hold exactly the tensors of the specs, and an old buffer that no model reads.
TEST(TensorSpecs, NamesAndShapesMatchRealCheckpoints) {
  NMM_TEST_DATA_OR_SKIP(folder, "oracles/hf-tiny");
  for (const std::string name : {"tiny_llama", "tiny_mistral", "tiny_qwen2", "tiny_smollm2"}) {
    const auto config = io::ModelConfig::load(folder / (name + "_config.json"));
    const auto file = io::SafetensorsFile::open(folder / (name + ".safetensors"));
    ASSERT_TRUE(config.ok() && file.ok()) << name;
    std::map<std::string, Shape> expected, found;
    for (const io::TensorSpec& spec : tensor_specs(*config)) expected[spec.name] = spec.shape;
    for (const auto& [tensor, view] : file->tensors()) {
      if (!tensor.ends_with("rotary_emb.inv_freq")) found[tensor] = view.shape;
    }
    EXPECT_EQ(found, expected) << name;
  }
}

constexpr const char* kSizes =
    R"("hidden_size":64,"intermediate_size":96,"num_hidden_layers":2,"num_attention_heads":4,
       "num_key_value_heads":2,"head_dim":16,"vocab_size":300,"max_position_embeddings":32,)";

class Synthesize : public testing::Test {
 protected:
  Synthesize() {
    std::string pattern = (fs::temp_directory_path() / "neuronmm-XXXXXX").string();
    NMM_CHECK(mkdtemp(pattern.data()) != nullptr);
    root_ = pattern;
    fs::create_directories(root_ / "in");
  }
  ~Synthesize() override {
    set_interrupted(false);
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }

  // Synthesizes root_/out from the small sizes and `fields`.
  Status make(const std::string& fields, const std::string& out, uint64_t seed = 1,
              bool force = false, const std::optional<io::Quantization>& quantization = {}) {
    const fs::path config_json = root_ / "in/config.json";
    std::ofstream(config_json) << "{" << kSizes << fields << "}";
    NMM_ASSIGN(const auto config, io::ModelConfig::load(config_json));
    Progress silent;
    return synthesize(config, config_json, root_ / out, force, seed, silent, {}, quantization);
  }
  std::string weights(const std::string& out) const {
    std::ifstream file(root_ / out / "model.safetensors", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path root_;
};

constexpr const char* kLlama = R"("architectures":["LlamaForCausalLM"])";

TEST_F(Synthesize, EveryArchitectureLoads) {
  for (const std::string fields :
       {R"("architectures":["LlamaForCausalLM"],"attention_bias":true,"dtype":"float32")",
        R"("architectures":["MistralForCausalLM"],"dtype":"float16")",
        R"("architectures":["Qwen2ForCausalLM"],"tie_word_embeddings":true)",
        R"("architectures":["Qwen3ForCausalLM"])",
        R"("architectures":["Qwen3MoeForCausalLM"],"num_experts":5,"num_experts_per_tok":2,
           "moe_intermediate_size":24,"mlp_only_layers":[0])",
        R"("architectures":["MixtralForCausalLM"],"num_local_experts":3)",
        R"("architectures":["OlmoeForCausalLM"],"num_experts":9,"clip_qkv":8.0)",
        R"("architectures":["GraniteMoeForCausalLM"],"num_local_experts":3)",
        R"("architectures":["GptOssForCausalLM"],"num_local_experts":5)"}) {
    const Status status = make(fields, "out", 1, true);
    ASSERT_TRUE(status.ok()) << status.error().message;
    const auto config = io::ModelConfig::load(root_ / "out/config.json");
    const auto checkpoint = io::Checkpoint::open(root_ / "out");
    ASSERT_TRUE(config.ok() && checkpoint.ok()) << fields;
    EXPECT_EQ(checkpoint->tensors().size(), tensor_specs(*config).size());
    EXPECT_EQ(checkpoint->has("lm_head.weight"), !config->tie_word_embeddings);
    for (const auto& [name, tensor] : checkpoint->tensors()) EXPECT_EQ(tensor.dtype, config->dtype);
    for (int64_t i = 0; i < config->num_hidden_layers; ++i) {
      const auto layer = layer_weights(*checkpoint, *config, i);
      EXPECT_TRUE(layer.ok()) << layer.error().message;
    }
  }
}

// The rounded values have the mean and the deviation of the floats, and rows differ.
TEST_F(Synthesize, WeightsMayBeRounded) {
  for (const LowBitFormat& format :
       {LowBitFormat{8, 128}, LowBitFormat{6, 128}, LowBitFormat{4, 16}, LowBitFormat{4, 32}}) {
    const io::Quantization quantization = {format, {{"lm_head", LowBitFormat{8, 128}}}, {}};
    const Status status =
        make(R"("architectures":["Qwen3MoeForCausalLM"],"num_experts":5,"num_experts_per_tok":2,
                "moe_intermediate_size":24)",
             "out", 3, true, quantization);
    ASSERT_TRUE(status.ok()) << status.error().message;
    const auto config = io::ModelConfig::load(root_ / "out/config.json");
    const auto checkpoint = io::Checkpoint::open(root_ / "out");
    ASSERT_TRUE(config.ok() && checkpoint.ok());
    EXPECT_EQ(config->quantization, quantization);
    const auto layer = layer_weights(*checkpoint, *config, 1);
    ASSERT_TRUE(layer.ok()) << layer.error().message;
    ASSERT_TRUE(layer->mixture.has_value());
    EXPECT_FALSE(layer->mixture->router.quantized());
    const ops::WeightView& up = layer->mixture->experts[3].up.w_t;
    EXPECT_EQ(up.format, format);
    std::vector<float> first(64), second(64);
    to_floats(up, 0, 64, first.data());
    to_floats(up, 64, 64, second.data());
    EXPECT_NE(first, second);
    double squares = 0.0;
    for (int64_t row = 0; row < up.rows(); ++row) {
      to_floats(up, row * 64, 64, first.data());
      for (const float value : first) squares += double{value} * double{value};
    }
    EXPECT_NEAR(std::sqrt(squares / static_cast<double>(up.size())), 0.02, 0.002);
  }
}

TEST_F(Synthesize, RoundedWeightsFollowFromTheSeed) {
  const io::Quantization quantization = {LowBitFormat{4, 16}};
  ASSERT_TRUE(make(kLlama, "a", 1, false, quantization).ok());
  ASSERT_TRUE(make(kLlama, "b", 1, false, quantization).ok());
  ASSERT_TRUE(make(kLlama, "c", 2, false, quantization).ok());
  EXPECT_EQ(weights("a"), weights("b"));
  EXPECT_NE(weights("a"), weights("c"));
}

TEST_F(Synthesize, ARecordOfRanksGivesFactors) {
  const Status status =
      make(std::string(kLlama) +
               R"(,"neuronmm_compression":{"method":"svd","ratio":0.2,"block":8,"align":"nearest",
             "ranks":[{"gate":8,"up":16,"down":0},{"gate":0,"up":0,"down":24}]})",
           "out");
  ASSERT_TRUE(status.ok()) << status.error().message;
  const auto config = io::ModelConfig::load(root_ / "out/config.json");
  const auto checkpoint = io::Checkpoint::open(root_ / "out");
  ASSERT_TRUE(config.ok() && checkpoint.ok());
  const auto layer = layer_weights(*checkpoint, *config, 0);
  ASSERT_TRUE(layer.ok()) << layer.error().message;
  EXPECT_EQ(layer->mlp.gate.rank(), 8);
  EXPECT_EQ(layer->mlp.up.rank(), 16);
  EXPECT_FALSE(layer->mlp.down.low_rank());
}

TEST_F(Synthesize, ARecordOfPivotsGivesPivots) {
  const Status status = make(
      std::string(kLlama) +
          R"(,"neuronmm_compression":{"method":"whitened","ratio":0.2,"block":8,"align":"nearest",
             "form":"mixed","ranks":[{"gate":0,"up":0,"down":40,"input":48,"neurons":80},
                                     {"gate":63,"up":1,"down":0}]})",
      "out");
  ASSERT_TRUE(status.ok()) << status.error().message;
  const auto config = io::ModelConfig::load(root_ / "out/config.json");
  const auto checkpoint = io::Checkpoint::open(root_ / "out");
  ASSERT_TRUE(config.ok() && checkpoint.ok());
  EXPECT_EQ(checkpoint->tensors().size(), tensor_specs(*config).size());
  const auto first = layer_weights(*checkpoint, *config, 0);  // checks that pivots ascend
  const auto second = layer_weights(*checkpoint, *config, 1);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->mlp.in.rank(), 48);
  EXPECT_EQ(first->mlp.neurons(), 80);
  EXPECT_EQ(second->mlp.gate.in.rank(), 63);
  EXPECT_GE(first->mlp.down.out.index.back(), 60);  // pivots spread over all 64 elements
  EXPECT_EQ(first->mlp.down.out.index.front(), 0);
  std::vector<float> map(40 * 24);
  to_floats(first->mlp.down.out.map_t, 0, std::ssize(map), map.data());
  EXPECT_GT(std::ranges::count_if(map, [](float value) { return value != 0.0f; }), 900);
}

TEST_F(Synthesize, BytesDependOnTheSeedAndNotOnTheThreads) {
  const int before = num_threads();
  set_num_threads(1);
  ASSERT_TRUE(make(kLlama, "one").ok());
  set_num_threads(5);
  ASSERT_TRUE(make(kLlama, "five").ok());
  ASSERT_TRUE(make(kLlama, "other", 2).ok());
  set_num_threads(before);
  EXPECT_FALSE(weights("one").empty());
  EXPECT_EQ(weights("one"), weights("five"));
  EXPECT_NE(weights("one"), weights("other"));
}

// Checks moments and lag correlations of n independent normal values. Their standard errors, in
// units of the deviation, are 1/sqrt(n) for the mean and for a correlation, and sqrt(2/n) for the
// variance. Five of them are allowed.
TEST_F(Synthesize, WeightsAreNormalAndIndependent) {
  ASSERT_TRUE(
      make(std::string(kLlama) + R"(,"initializer_range":0.5,"dtype":"float32")", "out").ok());
  const auto checkpoint = io::Checkpoint::open(root_ / "out");
  ASSERT_TRUE(checkpoint.ok());
  const TensorView& matrix = checkpoint->tensors().at("model.embed_tokens.weight");
  const int64_t count = matrix.size();
  std::vector<double> values(count);
  to_doubles(matrix, 0, count, values.data());
  const double n = static_cast<double>(count), error = 5.0 / std::sqrt(n);
  double sum = 0.0, squares = 0.0;
  for (double& value : values) {
    value /= 0.5;
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / n, 0.0, error);
  EXPECT_NEAR(squares / n, 1.0, error * std::sqrt(2.0));
  for (const int64_t lag : {1, 2, 3, 4, 64}) {
    double product = 0.0;
    for (int64_t i = lag; i < count; ++i) product += values[i] * values[i - lag];
    EXPECT_NEAR(product / n, 0.0, error) << "lag " << lag;
  }
  std::vector<float> gain(64);
  to_floats(checkpoint->tensors().at("model.norm.weight"), 0, 64, gain.data());
  EXPECT_EQ(gain, std::vector<float>(64, 1.0f));
}

// transformers reads the folder only under the names of its own class.
TEST_F(Synthesize, FusedMatricesAreStoredAsTheFamilyHasThem) {
  const auto header = [&](const std::string& family, const std::string& out) {
    const Status made = make(family, out);
    EXPECT_TRUE(made.ok()) << made.error().message;
    return weights(out).substr(0, 4000);
  };
  const std::string phi = header(R"("model_type":"phi3")", "phi");
  EXPECT_NE(phi.find("layers.0.self_attn.qkv_proj.weight"), std::string::npos);
  EXPECT_NE(phi.find("layers.0.mlp.gate_up_proj.weight"), std::string::npos);
  EXPECT_EQ(phi.find("q_proj.weight"), std::string::npos);
  const std::string granite = header(
      R"("model_type":"granitemoehybrid","num_local_experts":0,"layer_types":["attention","attention"],
         "position_embedding_type":"rope","shared_intermediate_size":160)",
      "granite");
  EXPECT_NE(granite.find("layers.0.shared_mlp.input_linear.weight"), std::string::npos);
  EXPECT_NE(granite.find("layers.0.shared_mlp.output_linear.weight"), std::string::npos);
}

TEST_F(Synthesize, AnInterruptLeavesNothing) {
  set_interrupted(true);
  const Status status = make(kLlama, "out");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, Error::Kind::kInterrupted);
  EXPECT_FALSE(fs::exists(root_ / "out") || fs::exists(root_ / "out.partial"));
}

TEST_F(Synthesize, ExistingFoldersNeedForce) {
  ASSERT_TRUE(make(kLlama, "out", 1).ok());
  const std::string before = weights("out");
  const Status refused = make(kLlama, "out", 2);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("already exists"), std::string::npos);
  EXPECT_EQ(weights("out"), before);
  ASSERT_TRUE(make(kLlama, "out", 2, true).ok());
  EXPECT_NE(weights("out"), before);
}

}  // namespace
}  // namespace neuronmm::model
