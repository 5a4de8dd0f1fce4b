// The tests in this file name a model by a GGUF file, or by its name in the cache of Hugging Face's
// programs, in the place of a folder.

#include <cstdlib>

#include "../gguf/demo_gguf.h"
#include "run_program.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;

const std::string kFlags = " 'Once upon a time' --max-new-tokens 24";

class GgufCommand : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    exact_ = write("exact.gguf", gguf::demo_gguf(gguf::DemoMatrices::kBf16));
  }
  // Returns the text that `generate` writes, without messages.
  static std::string text_of(const std::string& arguments) {
    const Outcome outcome = neuronmm("generate " + arguments, "", "/dev/null");
    EXPECT_EQ(outcome.exit_code, 0) << arguments;
    return outcome.output;
  }
  // Returns the messages of `generate`.
  static std::string messages_of(const std::string& arguments) {
    return neuronmm("generate " + arguments + " 3>&1 >/dev/null", "", "&3").output;
  }
  std::string exact_;  // the bundled model with the weights of its folder
};

TEST_F(GgufCommand, AFileWritesTheTextOfItsFolder) {
  EXPECT_EQ(text_of(exact_ + kFlags), text_of(kDemo + kFlags));
  // Nothing is converted, so there is nothing to say.
  EXPECT_EQ(messages_of(exact_ + kFlags).find("note:"), std::string::npos);
}

TEST_F(GgufCommand, TheProgramSaysWhatItConverts) {
  const std::string rounded = write("eight.gguf", gguf::demo_gguf(gguf::DemoMatrices::kQ8_0));
  const std::string note = "note: " + rounded +
                           ": Q8_0 becomes 8 bits; the weights take 7 MB in "
                           "memory (the file has 8 MB)\n";
  const std::string messages = messages_of(rounded + kFlags);
  EXPECT_NE(messages.find(note), std::string::npos) << messages;
  for (const std::string flag : {" --device reference", " --activations fp32"})
    EXPECT_EQ(messages_of(rounded + kFlags + flag).find("note:"), std::string::npos) << flag;
  EXPECT_EQ(text_of(rounded + kFlags), text_of(kDemo + kFlags));
}

TEST_F(GgufCommand, EveryCommandOpensAFile) {
  const std::string text = write("text.txt", "Once upon a time there was a cat. It sat on a mat.");
  const std::string out = path("out");
  expect(neuronmm("inspect " + exact_), 0, {"LlamaForCausalLM"});
  expect(neuronmm("tokenize " + exact_ + " 'The cat sat.'"), 0,
         {neuronmm("tokenize " + kDemo + " 'The cat sat.'").output.c_str()});
  const std::string of_text = " " + text + " --context 8";
  const auto perplexity = [&](const std::string& model) {
    const std::string output = neuronmm("perplexity " + model + of_text).output;
    return output.substr(0, output.find("tokens/s"));
  };
  EXPECT_NE(perplexity(kDemo).find("chunks         2"), std::string::npos) << perplexity(kDemo);
  EXPECT_EQ(perplexity(exact_), perplexity(kDemo));
  expect(neuronmm("perplexity " + kDemo + of_text + " --reference " + exact_), 0, {"KL"});
  expect(neuronmm("bench " + exact_ + " --prompt-tokens 8 --new-tokens 2 --runs 1"), 0,
         {"prefill"});
  expect(neuronmm("check " + exact_ + " --reference " + kDemo + " --new-tokens 4"), 0, {"0"});
  expect(neuronmm("generate " + exact_ + kFlags + " --draft " + exact_), 0, {"accepted"});
  expect(neuronmm("compress " + exact_ + " --ratio 0.2 --dry-run"), 0, {"parameters"});
  expect(neuronmm("compress " + exact_ + " -o " + out + " --ratio 0.2 --method svd"), 0,
         {out.c_str()});
  EXPECT_EQ(text_of(out + kFlags).find("neuronmm"), std::string::npos);
}

TEST_F(GgufCommand, AFolderThatIsMadeOfAFileIsThatOfTheModel) {
  const std::string of_file = path("of_file"), of_folder = path("of_folder");
  for (const std::string bits : {"8", "4"}) {
    expect(neuronmm("quantize " + exact_ + " --force --bits " + bits + " -o " + of_file), 0, {});
    expect(neuronmm("quantize " + kDemo + " --force --bits " + bits + " -o " + of_folder), 0, {});
    EXPECT_TRUE(read(of_file + "/model.safetensors") == read(of_folder + "/model.safetensors"));
    EXPECT_EQ(text_of(of_file + kFlags), text_of(of_folder + kFlags));
  }
}

TEST_F(GgufCommand, ANameIsLookedUpInTheCache) {
  const fs::path snapshot = folder_ / "hub/models--org--m/snapshots/0123";
  fs::create_directories(snapshot);
  fs::create_directories(folder_ / "hub/models--org--m/refs");
  write("hub/models--org--m/refs/main", "0123");
  fs::create_symlink(exact_, snapshot / "m-BF16.gguf");
  setenv("HF_HUB_CACHE", path("hub").c_str(), 1);
  EXPECT_EQ(text_of("org/m" + kFlags), text_of(kDemo + kFlags));
  EXPECT_EQ(text_of("org/m:bf16" + kFlags), text_of(kDemo + kFlags));
  EXPECT_EQ(text_of("org/m/m-BF16.gguf" + kFlags), text_of(kDemo + kFlags));
  fs::create_symlink(exact_, snapshot / "m-F16.gguf");
  expect(neuronmm("generate org/m x"), 1, {"m-BF16.gguf, m-F16.gguf in it; name one of them: "});
  expect(neuronmm("generate org/absent x"), 1,
         {"org/absent: there is no such folder, and the Hugging Face cache ",
          "download it with: hf download org/absent"});
  fs::remove_all(snapshot);
  fs::create_directory_symlink(kDemo, snapshot);
  EXPECT_EQ(text_of("org/m" + kFlags), text_of(kDemo + kFlags));
  expect(neuronmm("quantize org/m --bits 8 -o " + path("out")), 0, {});
  unsetenv("HF_HUB_CACHE");
}

TEST_F(GgufCommand, ABrokenFileEndsWithAMessage) {
  const std::string bytes = read(exact_);
  for (const size_t size : {bytes.size() / 2, bytes.size() - 1, size_t{100000}, size_t{30}}) {
    const std::string cut = write("cut.gguf", bytes.substr(0, size));
    expect(neuronmm("generate " + cut + " x"), 1, {"cut.gguf: "});
  }
  fs::create_directories(folder_ / "folder");
  fs::create_symlink(exact_, folder_ / "folder/m.gguf");
  EXPECT_EQ(text_of(path("folder") + kFlags), text_of(kDemo + kFlags));
}

}  // namespace
}  // namespace neuronmm::apps
