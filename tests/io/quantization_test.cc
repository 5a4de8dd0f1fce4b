// Tests the entry in config.json about weights of few bits.

#include "io/quantization.h"

#include "config_text.h"
#include "io/model_config.h"
#include "io_test.h"

namespace neuronmm::io {
namespace {

// Returns the small config with this record, under the key of newer or of older folders.
Result<ModelConfig> config_of(const std::string& key, const std::string& record) {
  return ModelConfig::parse(config_with("{\"" + key + "\":" + record + "}"), "config.json");
}
Result<ModelConfig> quantized_config(const std::string& record) {
  return config_of("neuronmm_quantization", record);
}
Result<ModelConfig> older_config(const std::string& record) {
  return config_of("quantization_config", record);
}

TEST(Quantization, TheEntryIsRead) {
  const auto config = quantized_config(R"({"bits":8,"group_size":128})");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_TRUE(config->quantization.has_value());
  EXPECT_FALSE(quantized_config("null")->quantization.has_value());
}

TEST(Quantization, TheEntryOfOlderFoldersIsRead) {
  const auto config = older_config(R"({"quant_method":"neuronmm","bits":8,"group_size":128})");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_TRUE(config->quantization.has_value());
  EXPECT_FALSE(older_config("null")->quantization.has_value());
}

TEST(Quantization, WrongFieldsAreNamed) {
  const std::string_view key = "config.json: \"neuronmm_quantization\"";
  EXPECT_TRUE(fails_with(quantized_config("4"), {key, "an object", "found 4"}));
  EXPECT_TRUE(fails_with(quantized_config(R"({"group_size":128})"), {key, "\"bits\"", "missing"}));
  EXPECT_TRUE(fails_with(quantized_config(R"({"bits":3,"group_size":128})"),
                         {key, "\"bits\"", "expected 8, 6 or 4", "found 3"}));
  EXPECT_TRUE(fails_with(quantized_config(R"({"bits":4,"group_size":24})"),
                         {key, "\"group_size\"", "expected 16 or 32", "found 24"}));
  EXPECT_TRUE(fails_with(quantized_config(R"({"bits":6,"group_size":16})"),
                         {key, "\"group_size\"", "expected 128", "found 16"}));
  EXPECT_TRUE(fails_with(quantized_config(R"({"bits":8,"group_size":128,"exceptions":[]})"),
                         {key, "\"exceptions\"", "an object"}));
  EXPECT_TRUE(
      fails_with(quantized_config(R"({"bits":8,"group_size":128,"exceptions":{"lm_head":6}})"),
                 {key, "\"exceptions\"", "\"lm_head\"", "an object", "found 6"}));
  EXPECT_TRUE(fails_with(
      quantized_config(R"({"bits":8,"group_size":128,"exceptions":{"lm_head":{"bits":5}}})"),
      {key, "\"exceptions\"", "\"lm_head\"", "\"bits\"", "found 5"}));
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
  EXPECT_TRUE(fails_with(older_config(R"({"quant_method":"hqq","bits":4})"),
                         {key, "\"quant_method\"", "neuronmm", "\"hqq\""}));
  EXPECT_TRUE(fails_with(older_config(R"({"quant_method":"neuronmm","group_size":128})"),
                         {key, "\"bits\"", "missing"}));
}

// An entry of another program must be refused, even if our own entry is there, too.
TEST(Quantization, AForeignEntryNextToOursIsRefused) {
  const auto both = [](const std::string& method) {
    return ModelConfig::parse(
        config_with(R"({"neuronmm_quantization":{"bits":8,"group_size":128},)"
                    R"("quantization_config":{"bits":8,"group_size":128,"quant_method":")" +
                    method + "\"}}"),
        "config.json");
  };
  EXPECT_TRUE(both("neuronmm")->quantization.has_value());
  EXPECT_TRUE(fails_with(both("awq"), {"neuronmm_quantization", "quantization_config"}));
}

TEST(Quantization, ModulesMayBeExceptions) {
  const Quantization mixed = {{4, 16}, {{"lm_head", {6}}, {"v_proj", {8}}}};
  const auto written = with_quantization(small_config().dump(), "config.json", mixed);
  ASSERT_TRUE(written.ok()) << written.error().message;
  EXPECT_EQ(nlohmann::json::parse(*written)["neuronmm_quantization"],
            nlohmann::json::parse(R"({"format_version":1,"bits":4,"group_size":16,)"
                                  R"("exceptions":{"lm_head":{"bits":6,"group_size":128},)"
                                  R"("v_proj":{"bits":8,"group_size":128}}})"));
  const auto config = ModelConfig::parse(*written, "config.json");
  ASSERT_TRUE(config.ok()) << config.error().message;
  ASSERT_EQ(config->quantization, mixed);
  EXPECT_EQ(mixed.format_of("lm_head.weight").bits, 6);
  EXPECT_EQ(mixed.format_of("model.layers.3.self_attn.v_proj.weight").bits, 8);
  EXPECT_EQ(mixed.format_of("model.layers.3.mlp.gate_v_proj.weight").bits, 4);
  EXPECT_EQ(mixed.format_of("weight").bits, 4);
  EXPECT_EQ(mixed.format_of("").bits, 4);
  EXPECT_EQ(mixed.format_of(".weight").bits, 4);
  EXPECT_EQ(quantization_text(mixed), "4 bits in groups of 16, lm_head 6 bits, v_proj int8");
}

// An exception for a single layer takes precedence over one for all layers.
TEST(Quantization, SingleLayersMayBeExceptions) {
  const Quantization mixed = {
      {4, 16},
      {{"v_proj", {8}}, {"layers.3.self_attn.v_proj", {6}}, {"layers.0.mlp.down_proj", {8}}}};
  const auto written = with_quantization(small_config().dump(), "config.json", mixed);
  ASSERT_TRUE(written.ok()) << written.error().message;
  const auto config = ModelConfig::parse(*written, "config.json");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->quantization, mixed);
  EXPECT_EQ(mixed.format_of("model.layers.3.self_attn.v_proj.weight").bits, 6);
  EXPECT_EQ(mixed.format_of("layers.3.self_attn.v_proj.weight").bits, 6);
  EXPECT_EQ(mixed.format_of("model.layers.13.self_attn.v_proj.weight").bits, 8);
  EXPECT_EQ(mixed.format_of("model.layers.0.mlp.down_proj.weight").bits, 8);
  EXPECT_EQ(mixed.format_of("model.layers.1.mlp.down_proj.weight").bits, 4);
  EXPECT_EQ(quantization_text(mixed),
            "4 bits in groups of 16, v_proj int8, 2 matrices with formats of their own");
}

TEST(Quantization, CalibrationTextsAreKept) {
  const Quantization by_text = {{6}, {}, {{"a.txt", "0123456789abcdef", 1000, 200}}, 150};
  const auto written = with_quantization(small_config().dump(), "config.json", by_text);
  ASSERT_TRUE(written.ok()) << written.error().message;
  const auto config = ModelConfig::parse(*written, "config.json");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->quantization, by_text);
  EXPECT_TRUE(fails_with(quantized_config(R"({"bits":8,"group_size":128,"calibration":[{}]})"),
                         {"\"calibration\"[0]", "\"name\"", "missing"}));
  const Quantization by_latin1 = {{8}, {}, {{"\xe4.txt", "0123456789abcdef", 1000, 200}}};
  const auto replaced = with_quantization(small_config().dump(), "config.json", by_latin1);
  ASSERT_TRUE(replaced.ok()) << replaced.error().message;
  EXPECT_NE(replaced->find("\uFFFD.txt"), std::string::npos);
}

TEST(Quantization, EntriesOfALaterVersionAreRefused) {
  EXPECT_TRUE(quantized_config(R"({"bits":8,"group_size":128,"format_version":1})").ok());
  EXPECT_TRUE(
      fails_with(quantized_config(R"({"bits":8,"group_size":128,"format_version":2})"),
                 {"\"neuronmm_quantization\"", "\"format_version\"", "use a newer neuronmm", "2"}));
}

TEST(Quantization, WritingKeepsTheOtherKeys) {
  const std::string original = small_config().dump();
  const auto written = with_quantization(original, "config.json");
  ASSERT_TRUE(written.ok()) << written.error().message;
  const auto config = ModelConfig::parse(*written, "config.json");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_TRUE(config->quantization.has_value());
  nlohmann::json keys = nlohmann::json::parse(*written);
  EXPECT_EQ(keys["neuronmm_quantization"],
            nlohmann::json({{"format_version", 1}, {"bits", 8}, {"group_size", 128}}));
  keys.erase("neuronmm_quantization");
  EXPECT_EQ(keys, small_config());
  const auto again = with_quantization(
      config_with(R"({"quantization_config":{"quant_method":"neuronmm"}})"), "config.json");
  EXPECT_EQ(again->find("quantization_config"), std::string::npos) << "the older key";
  EXPECT_TRUE(fails_with(with_quantization("[1]", "config.json"), {"config.json", "JSON object"}));
}

}  // namespace
}  // namespace neuronmm::io
