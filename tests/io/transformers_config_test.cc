// Tests the class names that config.json has for our code in transformers.

#include "io/transformers_config.h"

#include <nlohmann/json.hpp>

#include "config_text.h"
#include "io/model_config.h"
#include "io_test.h"

namespace neuronmm::io {
namespace {

struct Names {
  const char *stem, *model_type;
  Architecture architecture;
};
constexpr Names kAll[] = {{"Llama", "llama", Architecture::kLlama},
                          {"Mistral", "mistral", Architecture::kMistral},
                          {"Qwen2", "qwen2", Architecture::kQwen2},
                          {"Qwen3", "qwen3", Architecture::kQwen3}};

TEST(TransformersConfig, NamesOurClassesForEveryArchitecture) {
  for (const Names& names : kAll) {
    const std::string stem = names.stem;
    const std::string original = config_with(
        R"({"model_type": ")" + std::string(names.model_type) + R"(", "rope_theta": 5e5})",
        stem + "ForCausalLM");
    const auto written = with_transformers_classes(original, "config.json");
    ASSERT_TRUE(written.ok()) << written.error().message;
    nlohmann::json config = nlohmann::json::parse(*written);
    const std::string ours = "Neuronmm" + stem;
    EXPECT_EQ(config["architectures"], nlohmann::json({ours + "ForCausalLM"}));
    EXPECT_EQ(config["model_type"], "neuronmm_" + std::string(names.model_type));
    EXPECT_EQ(
        config["auto_map"],
        nlohmann::json({{"AutoConfig", "configuration_neuronmm." + ours + "Config"},
                        {"AutoModel", "modeling_neuronmm." + ours + "Model"},
                        {"AutoModelForCausalLM", "modeling_neuronmm." + ours + "ForCausalLM"}}));
    const auto read = ModelConfig::parse(*written, "config.json");
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read->architecture, names.architecture);
    EXPECT_EQ(read->ropes[0].theta, 5e5);
    nlohmann::json before = nlohmann::json::parse(original);
    for (const char* key : {"architectures", "model_type", "auto_map"}) {
      config.erase(key);
      before.erase(key);
    }
    EXPECT_EQ(config, before);
  }
}

// A folder may be compressed first and quantized later, which writes the names twice.
TEST(TransformersConfig, WritingAgainChangesNothing) {
  for (const Names& names : kAll) {
    const auto once = with_transformers_classes(
        config_with("{}", std::string(names.stem) + "ForCausalLM"), "config.json");
    ASSERT_TRUE(once.ok()) << once.error().message;
    const auto twice = with_transformers_classes(*once, "config.json");
    ASSERT_TRUE(twice.ok()) << twice.error().message;
    EXPECT_EQ(*once, *twice);
  }
}

TEST(TransformersConfig, ModelTypeAloneSaysTheArchitecture) {
  for (const Names& names : kAll) {
    for (const std::string prefix : {"", "neuronmm_"}) {
      const std::string type = prefix + names.model_type;
      const auto config = ModelConfig::parse(
          config_with(R"({"architectures": null, "model_type": ")" + type + "\"}"), "config.json");
      ASSERT_TRUE(config.ok()) << config.error().message;
      EXPECT_EQ(config->architecture, names.architecture);
    }
  }
}

TEST(TransformersConfig, OtherClassesAreRefused) {
  for (const std::string name : {"NeuronmmGemmaForCausalLM", "NeuronmmNeuronmmLlamaForCausalLM",
                                 "NeuronmmLlamaModel", "Neuronmm", "neuronmm_llama"}) {
    const auto parsed = ModelConfig::parse(config_with("{}", name), "config.json");
    EXPECT_TRUE(fails_with(parsed, {"config.json: \"architectures\"", name, "LlamaForCausalLM"}));
    EXPECT_TRUE(fails_with(with_transformers_classes(config_with("{}", name), "config.json"),
                           {"config.json: \"architectures\"", name}));
  }
  EXPECT_TRUE(fails_with(with_transformers_classes("[]", "c"), {"c: expected a JSON object"}));
}

}  // namespace
}  // namespace neuronmm::io
