// Tests that folders which hold one table twice are tied when they are opened, and that other
// folders are not.

#include "io/model_folder.h"

#include <chrono>
#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "base/notices.h"
#include "model/tiny_model.h"

namespace neuronmm::io {
namespace {

class OpenModel : public testing::Test {
 protected:
  void SetUp() override {
    set_notice_handler([this](const std::string& sentence) { notices_.push_back(sentence); });
  }
  void TearDown() override { set_notice_handler({}); }
  ModelFolder open() {
    folder_.write_tensors(tensors_);
    folder_.write_text("config.json", model::config_json(config_));
    auto opened = open_model(folder_.path());
    if (!opened.ok()) throw std::runtime_error(opened.error().message);
    return std::move(opened).value();
  }

  model::ModelFolder folder_;
  ModelConfig config_ = model::tiny_config(Architecture::kLlama);
  model::TestTensors tensors_ = model::random_tensors(config_, 5);
  std::vector<std::string> notices_;
};

TEST_F(OpenModel, EqualTablesAreTiedAndTheConfigSaysSo) {
  tensors_["lm_head.weight"] = tensors_["model.embed_tokens.weight"];
  const ModelFolder model = open();
  EXPECT_TRUE(model.config.tie_word_embeddings);
  EXPECT_FALSE(model.checkpoint.has("lm_head.weight"));
  ASSERT_EQ(notices_.size(), 1u);
  EXPECT_NE(notices_[0].find("equal"), std::string::npos) << notices_[0];
  const auto text = config_text(model.checkpoint);
  ASSERT_TRUE(text.ok());
  const auto written = ModelConfig::parse(*text, "config.json");
  ASSERT_TRUE(written.ok());
  EXPECT_TRUE(written->tie_word_embeddings);
  open();
  EXPECT_EQ(notices_.size(), 1u) << "a notice is passed once";
}

TEST_F(OpenModel, DifferentTablesStayTwo) {
  const ModelFolder model = open();
  EXPECT_FALSE(model.config.tie_word_embeddings);
  EXPECT_TRUE(model.checkpoint.has("lm_head.weight"));
  EXPECT_TRUE(notices_.empty());
  const auto text = config_text(model.checkpoint);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*text, model::config_json(config_));
}

// The second head differs, but its file claims to be as it was, so that nothing is read again.
TEST_F(OpenModel, TablesAreComparedOnceForEachStateOfTheFiles) {
  const model::ModelFolder other;
  other.write_tensors(tensors_);
  tensors_["lm_head.weight"] = tensors_["model.embed_tokens.weight"];
  EXPECT_TRUE(open().config.tie_word_embeddings);
  const auto file = folder_.path() / "model.safetensors";
  const auto written = std::filesystem::last_write_time(file);
  std::filesystem::copy_file(other.path() / "model.safetensors", file,
                             std::filesystem::copy_options::overwrite_existing);
  std::filesystem::last_write_time(file, written);
  EXPECT_TRUE(open_model(folder_.path())->config.tie_word_embeddings);
  std::filesystem::last_write_time(file, written + std::chrono::seconds(1));
  EXPECT_FALSE(open_model(folder_.path())->config.tie_word_embeddings);
}

TEST_F(OpenModel, RoundedFoldersStayAsTheyAre) {
  tensors_["lm_head.weight"] = tensors_["model.embed_tokens.weight"];
  config_.quantization = Quantization{};
  tensors_ = model::quantized_tensors(config_, tensors_);
  EXPECT_FALSE(open().config.tie_word_embeddings);
  EXPECT_TRUE(notices_.empty());
}

// A config.json and weights that contradict each other. open_model() refuses them and names both
// numbers.
class Contradiction : public OpenModel {
 protected:
  std::string error() {
    folder_.write_tensors(tensors_);
    folder_.write_text("config.json", model::config_json(config_));
    const auto opened = open_model(folder_.path());
    return opened.ok() ? "opened" : opened.error().message;
  }
  testing::AssertionResult names(std::initializer_list<std::string_view> words) {
    const std::string message = error();
    for (const std::string_view word : words) {
      if (message.find(word) == std::string::npos)
        return testing::AssertionFailure() << "no \"" << word << "\" in: " << message;
    }
    return testing::AssertionSuccess();
  }
  void copy_layer(const std::string& from, const std::string& to) {
    const model::TestTensors all = tensors_;
    for (const auto& [name, tensor] : all) {
      if (name.starts_with(from)) tensors_[to + name.substr(from.size())] = tensor;
    }
  }
  void erase_layer(const std::string& prefix) {
    std::erase_if(tensors_, [&](const auto& tensor) { return tensor.first.starts_with(prefix); });
  }
};

TEST_F(Contradiction, LayersBeyondTheConfig) {
  copy_layer("model.layers.1.", "model.layers.2.");
  EXPECT_TRUE(names({"num_hidden_layers 2", "up to number 2 (3 layers)"}));
}

TEST_F(Contradiction, LayersThatTheFileLacks) {
  erase_layer("model.layers.1.");
  EXPECT_TRUE(names({"num_hidden_layers 2", "1 layers", "layer 1 is missing"}));
  erase_layer("model.layers.0.");
  EXPECT_EQ(error(), "opened") << "readers of tensors name the first one that is missing";
}

TEST_F(Contradiction, ALayerInTheMiddleIsMissing) {
  config_.num_hidden_layers = 3;
  config_.layers.resize(static_cast<size_t>(config_.num_hidden_layers));
  tensors_ = model::random_tensors(config_, 5);
  erase_layer("model.layers.1.");
  EXPECT_TRUE(names({"num_hidden_layers 3", "2 layers", "layer 1 is missing"}));
}

TEST_F(Contradiction, RowsOfTheVocabulary) {
  config_.vocab_size = 18;
  EXPECT_TRUE(names({"vocab_size 18", "embed_tokens.weight has 19 rows"}));
  config_.vocab_size = 19;
  model::TestTensor& head = tensors_["lm_head.weight"];
  head.shape[0] = 18;
  head.values.resize(static_cast<size_t>(head.shape[0] * head.shape[1]));
  EXPECT_TRUE(names({"vocab_size 19", "lm_head.weight has 18 rows"}));
}

TEST_F(Contradiction, WeightsOfOtherPrograms) {
  const model::TestTensor small = {DType::kF32, {1}, {0.0f}};
  const std::string q = "model.layers.0.self_attn.q_proj";
  for (const auto& [name, words] :
       std::map<std::string, std::string>{{q + ".lora_A.weight", "LoRA"},
                                          {q + ".qweight", "GPTQ"},
                                          {q + ".weight_packed", "compressed-tensors"},
                                          {q + ".SCB", "bitsandbytes"},
                                          {"lm_head.bias", "biases"}}) {
    tensors_[name] = small;
    EXPECT_TRUE(names({name, words}));
    tensors_.erase(name);
  }
}

TEST_F(Contradiction, TensorsThatTransformersIgnoresAreIgnored) {
  const model::TestTensor small = {DType::kF32, {1}, {0.0f}};
  tensors_["model.layers.7.self_attn.rotary_emb.inv_freq"] = small;
  tensors_["mtp.layers.9.mlp.up_proj.weight"] = small;
  tensors_["visual.proj.weight"] = small;
  copy_layer("model.layers.1.", "model.layers.2.");
  tensors_["model.layers.2.eh_proj.weight"] = small;
  EXPECT_EQ(error(), "opened");
}

}  // namespace
}  // namespace neuronmm::io
