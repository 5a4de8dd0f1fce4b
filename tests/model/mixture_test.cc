// Tests of models that are mixtures of experts: folders that do not fit their config are refused
// with a message of their own, and rounded experts compute what their values say.

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "io/families/tensor_names.h"
#include "io/quantization.h"
#include "model/backends.h"
#include "model/family_golden.h"
#include "model/tensor_specs.h"
#include "model/tiny_model.h"

namespace neuronmm::model {
namespace {

// Changes the folder of a golden model and returns the error of loading it.
class BrokenMixture {
 public:
  explicit BrokenMixture(const std::string& name)
      : golden_(source_dir() / "tests/model/families" / (name + ".json")),
        config(golden_.json.at("config")) {
    for (const auto& [tensor, shape] : golden_.json.at("tensors").items()) {
      tensors[tensor] = {FamilyGolden::is_packed(tensor) ? DType::kU8 : DType::kF32,
                         golden_.shape_of(tensor), golden_.weights(tensor)};
    }
  }

  std::string error() const {
    const ModelFolder folder;
    folder.write_tensors(tensors);
    folder.write_text("config.json", config.dump());
    const auto backend = ops::make_reference_backend();
    const auto loaded = Transformer::load(folder.path(), *backend);
    return loaded.ok() ? "" : loaded.error().message;
  }
  void expect_error_naming(const std::vector<std::string>& parts) const {
    const std::string message = error();
    EXPECT_NE(message, "");
    for (const std::string& part : parts) {
      EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
    }
  }

 private:
  FamilyGolden golden_;

 public:
  nlohmann::json config;
  TestTensors tensors;
};

TestTensor rows_more(const TestTensor& matrix) {
  TestTensor larger = matrix;
  ++larger.shape[0];
  larger.values.resize(static_cast<size_t>(TensorView{DType::kF32, larger.shape, nullptr}.size()));
  return larger;
}

TEST(BrokenMixtures, TheGoldenModelsLoad) {
  for (const char* const name : {"qwen3_moe", "mixtral", "olmoe", "granite_moe", "gpt_oss"}) {
    EXPECT_EQ(BrokenMixture(name).error(), "") << name;
  }
}

TEST(BrokenMixtures, ARouterWithARowForAnExpertThatDoesNotExist) {
  BrokenMixture model("qwen3_moe");
  TestTensor& router = model.tensors.at("model.layers.0.mlp.gate.weight");
  router = rows_more(router);
  model.expect_error_naming({"model.layers.0.mlp.router.weight", "5 experts", "found 6 rows",
                             "names expert 5, which does not exist"});
  router.shape[0] = 4;
  router.values.resize(4 * 64);
  model.expect_error_naming({"model.layers.0.mlp.router.weight", "5 experts", "found 4 rows"});
}

TEST(BrokenMixtures, ExpertsThatAreMissing) {
  BrokenMixture model("mixtral");
  model.tensors.erase("model.layers.1.block_sparse_moe.experts.2.w1.weight");
  model.expect_error_naming({"model.layers.1.mlp.experts.2.gate_proj.weight"});
  model.tensors.erase("model.layers.1.block_sparse_moe.experts.2.w2.weight");
  model.tensors.erase("model.layers.1.block_sparse_moe.experts.2.w3.weight");
  model.expect_error_naming({"5 experts", "layer 1", "no tensors of expert 2"});
}

TEST(BrokenMixtures, ExpertsBeyondTheirNumber) {
  BrokenMixture model("qwen3_moe");
  model.tensors["model.layers.2.mlp.experts.5.up_proj.weight"] =
      model.tensors.at("model.layers.2.mlp.experts.4.up_proj.weight");
  model.expect_error_naming({"5 experts", "model.layers.2.mlp.experts.5.up_proj.weight"});
}

TEST(BrokenMixtures, ExpertsUnderTwoNames) {
  BrokenMixture model("mixtral");
  model.tensors["model.layers.0.mlp.experts.3.gate_proj.weight"] =
      model.tensors.at("model.layers.0.block_sparse_moe.experts.3.w1.weight");
  model.expect_error_naming({"block_sparse_moe.experts.3.w1", "mlp.experts.3.gate_proj", "both"});
}

TEST(BrokenMixtures, ExpertsInOneTensorAndOneByOne) {
  BrokenMixture granite("granite_moe");
  granite.tensors["model.layers.0.mlp.experts.1.up_proj.weight"] = {
      DType::kF32, {80, 64}, std::vector<float>(80 * 64)};
  granite.expect_error_naming({"either in one tensor or one by one",
                               "block_sparse_moe.input_linear.weight", "experts.1.up_proj"});
  BrokenMixture qwen("qwen3_moe");
  qwen.tensors["model.layers.0.mlp.experts.down_proj"] = {
      DType::kF32, {5, 64, 24}, std::vector<float>(5 * 64 * 24)};
  qwen.expect_error_naming({"either in one tensor or one by one", "mlp.experts.down_proj"});
}

TEST(BrokenMixtures, MoreActiveExpertsThanThereAre) {
  for (const char* const name : {"qwen3_moe", "mixtral", "olmoe", "granite_moe", "gpt_oss"}) {
    BrokenMixture model(name);
    model.config["num_experts_per_tok"] = 6;
    model.expect_error_naming({"\"num_experts_per_tok\" is 6", "is 5"});
    model.config["num_experts_per_tok"] = 0;
    model.expect_error_naming({"num_experts_per_tok"});
  }
}

TEST(BrokenMixtures, TwoNumbersOfExperts) {
  BrokenMixture model("qwen3_moe");
  model.config["num_experts"] = 7;
  model.config["num_local_experts"] = 5;
  model.expect_error_naming({"\"num_experts\" is 7", "\"num_local_experts\" is 5"});
}

TEST(BrokenMixtures, StackedTensorsOfAnotherShape) {
  BrokenMixture granite("granite_moe");
  TestTensor& down = granite.tensors.at("model.layers.1.block_sparse_moe.output_linear.weight");
  down = rows_more(down);
  granite.expect_error_naming(
      {"output_linear.weight", "[5, 64, 80]", "5 experts of 80 neurons", "[6, 64, 80]"});
  BrokenMixture mxfp4("gpt_oss_mxfp4");
  const std::string stem = "model.layers.0.mlp.experts.down_proj";
  const TestTensor blocks = mxfp4.tensors.at(stem + "_blocks");
  mxfp4.tensors.erase(stem + "_blocks");
  mxfp4.expect_error_naming({stem + "_blocks", "missing"});
  mxfp4.tensors[stem + "_blocks"] = blocks;
  mxfp4.tensors.erase(stem + "_scales");
  mxfp4.expect_error_naming({stem + "_scales", "missing"});
}

TEST(BrokenMixtures, ADenseLayerWithExperts) {
  BrokenMixture model("qwen3_moe");
  model.config["mlp_only_layers"] = {0, 1};
  model.expect_error_naming({"model.layers.0.mlp.gate_proj.weight"});
}

// Gives the experts of the golden Mixtral bases of rank 4 in its first layer.
BrokenMixture mixture_on_bases() {
  BrokenMixture model("mixtral");
  const int64_t hidden = model.config.at("hidden_size"),
                width = model.config.at("intermediate_size");
  nlohmann::json record = {{"method", "whitened"}, {"ratio", 0.2}, {"block", 4}, {"form", "basis"}};
  for (int64_t i = 0; i < model.config.at("num_hidden_layers"); ++i) {
    record["ranks"].push_back({{"gate", 0}, {"up", 0}, {"down", 0}});
    record["bases"].push_back({{"input", i == 0 ? 4 : 0}, {"output", i == 0 ? 4 : 0}});
  }
  model.config["neuronmm_compression"] = record;
  const auto set = [&](const std::string& name, int64_t rows, int64_t columns) {
    model.tensors[name] = {
        DType::kF32, {rows, columns}, std::vector<float>(static_cast<size_t>(rows * columns))};
  };
  set("model.layers.0.mlp.input_basis_proj.weight", 4, hidden);
  set("model.layers.0.mlp.output_basis_proj.weight", hidden, 4);
  for (int64_t e = 0; e < model.config.at("num_local_experts"); ++e) {
    const std::string expert = fmt::format("model.layers.0.block_sparse_moe.experts.{}.", e);
    set(expert + "w1.weight", width, 4);
    set(expert + "w3.weight", width, 4);
    set(expert + "w2.weight", 4, width);
  }
  return model;
}

TEST(BrokenMixtures, BasesThatDoNotFitTheirConfig) {
  const std::string input = "model.layers.0.mlp.input_basis_proj.weight";
  EXPECT_EQ(mixture_on_bases().error(), "");
  BrokenMixture missing = mixture_on_bases();
  missing.tensors.erase(input);
  missing.expect_error_naming({input});
  BrokenMixture wrong = mixture_on_bases();
  wrong.tensors.at(input) = rows_more(wrong.tensors.at(input));
  wrong.expect_error_naming({input, "[4, 64]", "[5, 64]"});
  BrokenMixture wide = mixture_on_bases();
  const std::string expert = "model.layers.0.block_sparse_moe.experts.1.w2.weight";
  wide.tensors.at(expert) = rows_more(wide.tensors.at(expert));
  wide.expect_error_naming({"model.layers.0.mlp.experts.1.down_proj.weight", "[4, ", "[5, "});
  BrokenMixture unknown = mixture_on_bases();
  unknown.tensors["model.layers.1.mlp.input_basis_proj.weight"] = unknown.tensors.at(input);
  unknown.expect_error_naming(
      {"records no such basis", "layer 1", "layers.1.mlp.input_basis_proj"});
  BrokenMixture unrecorded = mixture_on_bases();
  unrecorded.config["neuronmm_compression"].erase("bases");
  unrecorded.expect_error_naming({"records no such basis", "layer 0", input});
}

// Loads experts of 8, 6 and 4 bits, and compares with floats of their values. CPU kernels also
// round activations, so this is the reference backend's.
TEST(RoundedExperts, ComputeWithTheirValues) {
  io::ModelConfig config = tiny_config(io::Architecture::kLlama);
  config.experts = io::Experts{.count = 5, .active = 2, .width = 11};
  const TestTensors tensors = random_tensors(config, 9);
  const auto backend = ops::make_reference_backend();
  const std::vector<TokenId> tokens = random_tokens(12, config.vocab_size, 4);
  for (const LowBitFormat& format :
       {LowBitFormat{8, 128}, LowBitFormat{6, 128}, LowBitFormat{4, 16}, LowBitFormat{4, 32}}) {
    TestTensors values = tensors;
    for (auto& [name, tensor] : values) {
      if (is_linear(name, config)) tensor.values = values_of(tensor, format);
    }
    EXPECT_FALSE(is_linear("model.layers.0.mlp.router.weight", config));
    const auto floats = load_tiny(config, values, *backend);
    io::ModelConfig rounded = config;
    rounded.quantization = io::Quantization{format};
    const auto low =
        load_tiny(rounded, quantized_tensors(rounded, tensors, *rounded.quantization), *backend);
    ASSERT_TRUE(floats.ok() && low.ok());
    const Matrix expected = all_logits(*floats, tokens), found = all_logits(*low, tokens);
    for (int64_t i = 0; i < found.rows() * found.columns(); ++i) {
      ASSERT_NEAR(found.data()[i], expected.data()[i], 1e-4) << format.bits << " bits";
    }
  }
}

TEST(ExpertNames, AreTranslatedBack) {
  EXPECT_EQ(
      io::stored_name(io::Architecture::kMixtral, "model.layers.3.mlp.experts.12.up_proj.weight"),
      "model.layers.3.block_sparse_moe.experts.12.w3.weight");
  EXPECT_EQ(io::stored_name(io::Architecture::kQwen3Moe, "model.layers.3.mlp.router.weight"),
            "model.layers.3.mlp.gate.weight");
  EXPECT_EQ(io::stored_name(io::Architecture::kQwen3Moe,
                            "model.layers.3.mlp.experts.0.down_proj.weight_scale"),
            "model.layers.3.mlp.experts.0.down_proj.weight_scale");
}

}  // namespace
}  // namespace neuronmm::model
