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
  const auto head = tensors_["lm_head.weight"];
  tensors_["lm_head.weight"] = tensors_["model.embed_tokens.weight"];
  EXPECT_TRUE(open().config.tie_word_embeddings);
  const auto file = folder_.path() / "model.safetensors";
  const auto written = std::filesystem::last_write_time(file);
  tensors_["lm_head.weight"] = head;
  folder_.write_tensors(tensors_);
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

}  // namespace
}  // namespace neuronmm::io
