// This test checks the text that a model writes itself, and that finished files are reused.

#include "model/self_generated.h"

#include <algorithm>
#include <fstream>

#include "base/interrupt.h"
#include "model/backends.h"
#include "model/generate.h"
#include "model/tiny_model.h"
#include "text/small_tokenizer.h"

namespace neuronmm::model {
namespace {

namespace fs = std::filesystem;

class SelfGenerated : public OnBackend {
 protected:
  void SetUp() override {
    io::ModelConfig config = tiny_config(io::Architecture::kLlama);
    config.vocab_size = 256;
    folder_.write_tensors(random_tensors(config, 4));
    folder_.write_text("config.json", config_json(config));
    folder_.write_text("tokenizer.json", text::small_tokenizer().dump());
    folder_.write_text("generation_config.json", "{\"eos_token_id\": 1}");
  }
  void TearDown() override { set_interrupted(false); }

  ModelFolder folder_, work_;
  Progress silent_;
  const SelfGeneration wanted_ = {folder_.path(), 18 * 12 - 5, 12, 7};
};
NMM_ON_ALL_BACKENDS(SelfGenerated);

// There are 18 sequences in two files. Each is what generate() gives after its first token.
TEST_P(SelfGenerated, SequencesAreThoseOfGenerate) {
  const auto written = self_generated(wanted_, work_.path(), *backend, silent_);
  ASSERT_TRUE(written.ok()) << written.error().message;
  ASSERT_EQ(written->size(), 18u);
  const auto model = Transformer::load(folder_.path(), *backend);
  ASSERT_TRUE(model.ok());
  for (const size_t i : {size_t{0}, size_t{5}, size_t{17}}) {
    const std::vector<TokenId>& tokens = (*written)[i];
    GenerateOptions options;
    options.max_new_tokens = 11;
    options.sampling.temperature = 1.0;
    options.sampling.seed = 7 + i;
    const auto expected = generate(*model, std::span(tokens).first(1), options);
    ASSERT_TRUE(expected.ok());
    EXPECT_TRUE(std::ranges::equal(std::span(tokens).subspan(1), expected->tokens)) << i;
  }
}

// A damaged file is made again, and an intact file is reused.
TEST_P(SelfGenerated, IntactFilesAreNotWrittenAgain) {
  const auto written = self_generated(wanted_, work_.path(), *backend, silent_);
  ASSERT_TRUE(written.ok());
  std::ofstream(work_.path() / "generated-1.safetensors") << "damaged";
  const auto time = fs::last_write_time(work_.path() / "generated-0.safetensors");
  const auto again = self_generated(wanted_, work_.path(), *backend, silent_);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, *written);
  EXPECT_EQ(fs::last_write_time(work_.path() / "generated-0.safetensors"), time);
}

}  // namespace
}  // namespace neuronmm::model
