// The tests in this file run commands with --adapter, and write padded folders, as a user does.

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "io/small_adapter.h"
#include "run_program.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;

// The width of the demo model.
constexpr int64_t kDemoWidth = 384;

class AdapterCommand : public ProgramTest {
 protected:
  // Returns the option for an adapter whose elements are all `value`.
  std::string adapter(const std::string& name, float value) const {
    io::write_small_adapter(path(name), kDemoWidth, value);
    return " --adapter " + path(name);
  }
  static std::string text_of(const std::string& model_and_options) {
    const Outcome outcome =
        neuronmm("generate " + model_and_options + " 'Once upon a time' --max-new-tokens 24", "",
                 "/dev/null");
    EXPECT_EQ(outcome.exit_code, 0) << model_and_options;
    return outcome.output;
  }
};

TEST_F(AdapterCommand, ChangesTheTextAsTheMergedFolderDoes) {
  const std::string none = adapter("none", 0.0f), strong = adapter("strong", 8.0f);
  EXPECT_EQ(text_of(kDemo + none), text_of(kDemo));
  EXPECT_NE(text_of(kDemo + strong), text_of(kDemo));
  expect(neuronmm("import " + kDemo + strong + " -o " + path("merged")), 0,
         {"written to ", "merged"});
  EXPECT_EQ(text_of(path("merged")), text_of(kDemo + strong));
  // A GGUF file of the model takes the same adapter.
  expect(neuronmm("export " + kDemo + " --target gguf --type BF16 -o " + path("m.gguf")), 0, {});
  EXPECT_EQ(text_of(path("m.gguf") + strong), text_of(kDemo + strong));
}

TEST_F(AdapterCommand, TellsWhatIsMerged) {
  expect(neuronmm("generate " + kDemo + adapter("a", 0.1f) + " Hi --max-new-tokens 1"), 0,
         {"adapter"});
}

TEST_F(AdapterCommand, RefusesWhatDoesNotFit) {
  const std::string generate = "generate " + kDemo + " Hi --max-new-tokens 1 --adapter ";
  expect(neuronmm(generate + path("absent")), 1, {"absent"});
  io::write_small_adapter(path("narrow"), 64, 0.1f);
  expect(neuronmm(generate + path("narrow")), 1,
         {"adapter_model.safetensors", "q_proj", "[64, 64]", "[384, 384]"});
  adapter("other", 0.1f);
  std::ofstream(path("other") + "/adapter_config.json") << R"({"peft_type": "IA3"})";
  expect(neuronmm(generate + path("other")), 1, {"adapter_config.json", "IA3"});
  expect(neuronmm("quantize " + kDemo + " -o " + path("eight") + " --bits 8"), 0, {});
  expect(neuronmm("generate " + path("eight") + " Hi" + adapter("a", 0.1f)), 1, {"original model"});
  // Both would be the adapted model.
  expect(neuronmm("perplexity " + kDemo + " " + kDemo + "/evaluation.txt --reference " + kDemo +
                  adapter("b", 0.1f)),
         2, {"--reference", "import"});
}

TEST_F(AdapterCommand, APaddedFolderHasLayersOfOneSize) {
  expect(neuronmm("compress " + kDemo + " -o " + path("small") +
                  " --form neurons --method whitened --ratio 0.3 --allocate predicted "
                  "--calibration " +
                  kDemo + "/calibration.txt --calibration-tokens 400"),
         0, {});
  expect(neuronmm("export " + path("small") + " --target padded -o " + path("dense")), 0,
         {"written to ", "dense"});
  const auto config = nlohmann::json::parse(read(path("dense") + "/config.json"));
  EXPECT_EQ(config["architectures"][0], "LlamaForCausalLM");
  EXPECT_FALSE(config.contains("auto_map"));
  EXPECT_LE(config["intermediate_size"], 1024);
  EXPECT_EQ(text_of(path("dense")), text_of(path("small")));
  expect(neuronmm("export " + path("small") + " --target padded -o " + path("dense")), 1,
         {"already exists"});
  expect(neuronmm("export " + path("small") + " --target padded --type Q4_0 -o " + path("n")), 2,
         {"--type", "padded"});
}

}  // namespace
}  // namespace neuronmm::apps
