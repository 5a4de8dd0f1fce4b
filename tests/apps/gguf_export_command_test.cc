// The tests in this file run `neuronmm export --target gguf` as a user does.

#include <filesystem>

#include <nlohmann/json.hpp>

#include "run_program.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;

const std::string kGgufFlags = " 'Once upon a time' --max-new-tokens 24";

class GgufExportCommand : public ProgramTest {
 protected:
  Outcome exported(const std::string& model, const std::string& rest = "") const {
    return neuronmm("export " + model + " --target gguf -o " + file() + " " + rest);
  }
  std::string file() const { return path("m.gguf"); }
  static std::string text_of(const std::string& model) {
    const Outcome outcome = neuronmm("generate " + model + kGgufFlags, "", "/dev/null");
    EXPECT_EQ(outcome.exit_code, 0) << model;
    return outcome.output;
  }
};

TEST_F(GgufExportCommand, AFileWritesTheTextOfItsFolder) {
  expect(exported(kDemo, "--type BF16 --json " + path("e.json")), 0,
         {"llama as BF16: ", "MB (tensors: BF16 ", "written to ", "m.gguf"});
  EXPECT_EQ(text_of(file()), text_of(kDemo));
  const auto report = nlohmann::json::parse(read(path("e.json")));
  EXPECT_EQ(report["architecture"], "llama");
  EXPECT_EQ(report["type"], "BF16");
  EXPECT_GT(report["tensors"]["BF16"], 10);
  expect(neuronmm("inspect " + file()), 0, {"LlamaForCausalLM"});
  const std::string text = " 'The cat sat, 12 times.'";
  EXPECT_EQ(neuronmm("tokenize " + file() + text).output,
            neuronmm("tokenize " + kDemo + text).output);
  // The importer reads it, too, and so does another export.
  expect(neuronmm("import " + file() + " -o " + path("folder")), 0, {});
  EXPECT_EQ(text_of(path("folder")), text_of(kDemo));
  expect(neuronmm("export " + file() + " --target gguf --type Q8_0 -o " + path("8.gguf")), 0, {});
  EXPECT_NE(text_of(path("8.gguf")), "");
}

TEST_F(GgufExportCommand, ModelsOfEightBitsBecomeQ8_0) {
  expect(neuronmm("quantize " + kDemo + " --bits 8 -o " + path("eight")), 0, {});
  expect(exported(path("eight")), 0, {"llama as Q8_0"});
  EXPECT_EQ(text_of(file()), text_of(path("eight")));
}

TEST_F(GgufExportCommand, CompressedModelsHaveSizesForEachLayer) {
  expect(neuronmm("compress " + kDemo + " -o " + path("small") +
                  " --form neurons --method whitened --ratio 0.3 --allocate predicted "
                  "--calibration " +
                  kDemo + "/calibration.txt --calibration-tokens 400"),
         0, {});
  expect(exported(path("small"), "--type BF16"), 0, {});
  EXPECT_EQ(text_of(file()), text_of(path("small")));
}

TEST_F(GgufExportCommand, RowsThatDoNotFitAreNamed) {
  // The demo model has rows of 384 and 1024 weights.
  expect(exported(kDemo, "--type Q4_K"), 0,
         {"blk.*.attn_q.weight: rows of 384 weights are no blocks of Q4_K: Q5_0"});
  expect(exported(kDemo, "--type Q4_K --strict --force"), 1,
         {"--strict: ", "blk.*.attn_q.weight: rows of 384 weights"});
  expect(exported(kDemo, "--type Q4_0 --force"), 0, {"llama as Q4_0"});
}

TEST_F(GgufExportCommand, ATextChoosesTheCodes) {
  const std::string text = " --calibration " + kDemo + "/calibration.txt --calibration-tokens 400";
  expect(exported(kDemo, "--type Q4_0"), 0, {"llama as Q4_0"});
  const std::string nearest = read(file());
  expect(exported(kDemo, "--type Q4_0 --force" + text), 0,
         {"llama as Q4_0", "rounded by 400 tokens of calibration.txt"});
  const std::string calibrated = read(file());
  EXPECT_EQ(calibrated.size(), nearest.size());
  EXPECT_NE(calibrated, nearest);
  EXPECT_FALSE(fs::exists(file() + ".partial"));
  EXPECT_NE(text_of(file()), "");
}

TEST_F(GgufExportCommand, TextsAreForFloatsAndForGguf) {
  const std::string text = " --calibration " + kDemo + "/calibration.txt";
  expect(neuronmm("quantize " + kDemo + " --bits 8 -o " + path("eight")), 0, {});
  expect(exported(path("eight"), text), 1, {"eight: its weights are ", "--calibration"});
  expect(neuronmm("export " + kDemo + " --target nxdi -o " + path("n") + text), 2,
         {"--calibration", "has no meaning with --target nxdi"});
  expect(neuronmm("export " + kDemo + " --target nxdi --force -o " + path("n")), 2,
         {"--force", "has no meaning with --target nxdi"});
  expect(exported(kDemo, "--calibration " + path("none.txt")), 1, {"none.txt"});
  expect(exported(kDemo, "--calibration-tokens 400"), 2,
         {"--calibration-tokens needs --calibration, the text that has the tokens"});
}

TEST_F(GgufExportCommand, AnExistingFileStays) {
  write("m.gguf", "mine");
  expect(exported(kDemo), 1, {"m.gguf: already exists", "--force"});
  EXPECT_EQ(read(file()), "mine");
  expect(exported(kDemo, "--force"), 0, {});
  expect(neuronmm("export " + file() + " --target gguf --force -o " + file()), 1,
         {"is the model itself"});
  fs::create_directories(folder_ / "folder");
  expect(neuronmm("export " + kDemo + " --target gguf -o " + path("folder")), 1,
         {"folder: is a folder; expected the name of the GGUF file"});
}

TEST_F(GgufExportCommand, OptionsOfOtherTargetsAreUsageErrors) {
  expect(exported(kDemo, "--device trn2"), 2, {"--device", "no meaning with --target gguf"});
  expect(exported(kDemo, "--type Q3_K"), 2, {"--type"});
  expect(neuronmm("export " + kDemo + " --target nxdi --type Q8_0 -o " + path("out")), 2,
         {"--type", "no meaning with --target nxdi"});
  expect(exported(path("missing")), 1, {"missing"});
  EXPECT_FALSE(fs::exists(file()));
}

}  // namespace
}  // namespace neuronmm::apps
