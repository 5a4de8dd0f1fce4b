#include "io/quantization.h"

#include "config_text.h"
#include "io/model_config.h"
#include "io_test.h"

namespace neuronmm::io {
namespace {

// The small config with this "quantization_config".
Result<ModelConfig> quantized_config(const std::string& record) {
  return ModelConfig::parse(config_with("{\"quantization_config\":" + record + "}"), "config.json");
}

TEST(Quantization, IsRead) {
  const auto config = quantized_config(R"({"quant_method":"neuronmm","bits":8,"group_size":128})");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_TRUE(config->int8_weights);
  EXPECT_FALSE(quantized_config("null")->int8_weights);
}

TEST(Quantization, WrongFieldsAreNamed) {
  const std::string_view key = "config.json: \"quantization_config\"";
  EXPECT_TRUE(fails_with(quantized_config("4"), {key, "an object", "found 4"}));
  EXPECT_TRUE(fails_with(quantized_config("{}"), {key, "\"quant_method\"", "missing"}));
  EXPECT_TRUE(fails_with(quantized_config(R"({"quant_method":"gptq","bits":4})"),
                         {key, "\"quant_method\"", "neuronmm", "\"gptq\""}));
  EXPECT_TRUE(fails_with(quantized_config(R"({"quant_method":"neuronmm","group_size":128})"),
                         {key, "\"bits\"", "missing"}));
  EXPECT_TRUE(
      fails_with(quantized_config(R"({"quant_method":"neuronmm","bits":4,"group_size":128})"),
                 {key, "\"bits\"", "expected 8", "found 4"}));
  EXPECT_TRUE(fails_with(quantized_config(R"({"quant_method":"neuronmm","bits":8})"),
                         {key, "\"group_size\"", "missing"}));
  EXPECT_TRUE(
      fails_with(quantized_config(R"({"quant_method":"neuronmm","bits":8,"group_size":48})"),
                 {key, "\"group_size\"", "expected 128", "found 48"}));
  EXPECT_TRUE(
      fails_with(quantized_config(R"({"quant_method":"neuronmm","bits":"8","group_size":128})"),
                 {key, "\"bits\"", "an integer"}));
}

TEST(Quantization, WritingKeepsTheOtherKeys) {
  const std::string original = small_config().dump();
  const auto written = with_quantization(original, "config.json");
  ASSERT_TRUE(written.ok()) << written.error().message;
  const auto config = ModelConfig::parse(*written, "config.json");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_TRUE(config->int8_weights);
  nlohmann::json keys = nlohmann::json::parse(*written);
  keys.erase("quantization_config");
  EXPECT_EQ(keys, small_config());
  EXPECT_TRUE(fails_with(with_quantization("[1]", "config.json"), {"config.json", "JSON object"}));
}

}  // namespace
}  // namespace neuronmm::io
