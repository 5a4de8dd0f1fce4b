#include "io/quantization.h"

#include "config_text.h"
#include "io/model_config.h"
#include "io_test.h"

namespace neuronmm::io {
namespace {

// The small config with this under the key of today, and under that of folders made until 0.2.
Result<ModelConfig> config_of(const std::string& key, const std::string& record) {
  return ModelConfig::parse(config_with("{\"" + key + "\":" + record + "}"), "config.json");
}
Result<ModelConfig> quantized_config(const std::string& record) {
  return config_of("neuronmm_quantization", record);
}
Result<ModelConfig> older_config(const std::string& record) {
  return config_of("quantization_config", record);
}

TEST(Quantization, IsRead) {
  const auto config = quantized_config(R"({"bits":8,"group_size":128})");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_TRUE(config->int8_weights);
  EXPECT_FALSE(quantized_config("null")->int8_weights);
}

TEST(Quantization, IsReadFromOlderFolders) {
  const auto config = older_config(R"({"quant_method":"neuronmm","bits":8,"group_size":128})");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_TRUE(config->int8_weights);
  EXPECT_FALSE(older_config("null")->int8_weights);
}

TEST(Quantization, WrongFieldsAreNamed) {
  const std::string_view key = "config.json: \"neuronmm_quantization\"";
  EXPECT_TRUE(fails_with(quantized_config("4"), {key, "an object", "found 4"}));
  EXPECT_TRUE(fails_with(quantized_config(R"({"group_size":128})"), {key, "\"bits\"", "missing"}));
  EXPECT_TRUE(fails_with(quantized_config(R"({"bits":4,"group_size":128})"),
                         {key, "\"bits\"", "expected 8", "found 4"}));
  EXPECT_TRUE(fails_with(quantized_config(R"({"bits":8})"), {key, "\"group_size\"", "missing"}));
  EXPECT_TRUE(fails_with(quantized_config(R"({"bits":8,"group_size":48})"),
                         {key, "\"group_size\"", "expected 128", "found 48"}));
  EXPECT_TRUE(fails_with(quantized_config(R"({"bits":"8","group_size":128})"),
                         {key, "\"bits\"", "an integer"}));
}

TEST(Quantization, WrongFieldsOfOlderFoldersAreNamed) {
  const std::string_view key = "config.json: \"quantization_config\"";
  EXPECT_TRUE(fails_with(older_config("4"), {key, "an object", "found 4"}));
  EXPECT_TRUE(fails_with(older_config("{}"), {key, "\"quant_method\"", "missing"}));
  EXPECT_TRUE(fails_with(older_config(R"({"quant_method":"gptq","bits":4})"),
                         {key, "\"quant_method\"", "neuronmm", "\"gptq\""}));
  EXPECT_TRUE(fails_with(older_config(R"({"quant_method":"neuronmm","group_size":128})"),
                         {key, "\"bits\"", "missing"}));
}

// A foreign quantization beside ours is still foreign.
TEST(Quantization, BothKeysMustHold) {
  const auto both = [](const std::string& method) {
    return ModelConfig::parse(
        config_with(R"({"neuronmm_quantization":{"bits":8,"group_size":128},)"
                    R"("quantization_config":{"bits":8,"group_size":128,"quant_method":")" +
                    method + "\"}}"),
        "config.json");
  };
  EXPECT_TRUE(both("neuronmm")->int8_weights);
  EXPECT_TRUE(fails_with(both("awq"), {"quant_method", "awq"}));
}

TEST(Quantization, WritingKeepsTheOtherKeys) {
  const std::string original = small_config().dump();
  const auto written = with_quantization(original, "config.json");
  ASSERT_TRUE(written.ok()) << written.error().message;
  const auto config = ModelConfig::parse(*written, "config.json");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_TRUE(config->int8_weights);
  nlohmann::json keys = nlohmann::json::parse(*written);
  EXPECT_EQ(keys["neuronmm_quantization"], nlohmann::json({{"bits", 8}, {"group_size", 128}}));
  keys.erase("neuronmm_quantization");
  EXPECT_EQ(keys, small_config());
  const auto again = with_quantization(
      config_with(R"({"quantization_config":{"quant_method":"neuronmm"}})"), "config.json");
  EXPECT_EQ(again->find("quantization_config"), std::string::npos) << "the older key";
  EXPECT_TRUE(fails_with(with_quantization("[1]", "config.json"), {"config.json", "JSON object"}));
}

}  // namespace
}  // namespace neuronmm::io
