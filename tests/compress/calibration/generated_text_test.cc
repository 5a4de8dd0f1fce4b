// This file tests compressions whose calibration text the dense model writes itself.

#include "compress/calibration/generated_text.h"

#include "compress/compress_test.h"
#include "io/checksum.h"
#include "io/model_config.h"
#include "model/generate.h"

namespace neuronmm::compress {
namespace {

class SelfWritten : public CompressTest {
 protected:
  CompressRequest writing(const std::string& out, Form form, int64_t tokens = 200) const {
    CompressRequest writing = request(out);
    writing.form = form;
    if (form != Form::kUv) writing.allocate = Allocate::kPredicted;
    writing.rule = {0.4, 4};
    writing.calibration = CalibrationText{};
    writing.calibration->self_generated = tokens;
    writing.calibration->seed = 7;
    return writing;
  }
};

// The sequences are those that generate() returns with the same seeds.
TEST_F(SelfWritten, SequencesAreWhatTheModelGenerates) {
  fs::create_directories(path("work"));
  const auto text =
      generated_sequences({input_.path(), 200, 7}, config_, backend_, path("work"), silent_);
  ASSERT_TRUE(text.ok()) << text.error().message;
  ASSERT_EQ(text->sequences.size(), 4u);  // of 64, 64, 64 and 8 tokens
  EXPECT_EQ(text->sequences.back().size(), 8u);
  EXPECT_EQ(text->origin.tokens, 200);
  EXPECT_TRUE(text->few);
  EXPECT_FALSE(text->measured.empty());
  EXPECT_FALSE(text->measured_held_out);
  const auto transformer = model::Transformer::load(input_.path(), backend_);
  ASSERT_TRUE(transformer.ok());
  std::string bytes;
  for (size_t i = 0; i < text->sequences.size(); ++i) {
    const std::vector<text::TokenId>& tokens = text->sequences[i];
    model::GenerateOptions options;
    options.max_new_tokens = std::ssize(tokens) - 1;
    options.sampling.temperature = 1.0;
    options.sampling.seed = 7 + i;
    const auto expected = model::generate(*transformer, std::span(tokens).first(1), options);
    ASSERT_TRUE(expected.ok());
    EXPECT_TRUE(std::ranges::equal(std::span(tokens).subspan(1), expected->tokens)) << i;
    bytes.append(reinterpret_cast<const char*>(tokens.data()), 4 * tokens.size());
  }
  ASSERT_EQ(text->origin.sources.size(), 1u);
  EXPECT_EQ(text->origin.sources[0].xxh3, io::checksum(bytes));
  EXPECT_EQ(text->origin.sources[0].bytes, 800);
}

TEST_F(SelfWritten, EveryFormCompressesWithoutAText) {
  for (const Form form : {Form::kUv, Form::kPivoted, Form::kNeurons, Form::kMixed}) {
    for (const char* out : {"one", "two"}) {
      const CompressSummary summary = run_well(writing(out, form));
      EXPECT_EQ(summary.calibration_tokens, 200);
    }
    EXPECT_EQ(bytes("one"), bytes("two")) << "the same seed";
    CompressRequest other = writing("other", form);
    other.calibration->seed = 8;
    run_well(other);
    EXPECT_NE(bytes("one"), bytes("other"));
    const auto config = io::ModelConfig::load(path("one") / "config.json");
    ASSERT_TRUE(config.ok());
    ASSERT_EQ(config->compression->calibration.size(), 1u);
    EXPECT_EQ(config->compression->calibration[0].name, "written by the model, seed 7");
    EXPECT_EQ(config->compression->calibration[0].tokens, 200);
    for (const char* out : {"one", "two", "other"}) fs::remove_all(path(out));
  }
}

TEST_F(SelfWritten, InterruptedGenerationContinues) {
  run_well(writing("whole", Form::kMixed, 20 * 64));
  int64_t all = 0;
  backend_.on_attention = [&] { ++all; };
  run_well(writing("again", Form::kMixed, 20 * 64));
  const int64_t second_batch = 64 * kLayers + 5;  // 16 sequences are generated together
  for (const int64_t stop : {int64_t{3}, second_batch}) {
    int64_t calls = 0;
    backend_.on_attention = [&] { set_interrupted(++calls >= stop); };
    const auto stopped = run(writing("parts", Form::kMixed, 20 * 64));
    ASSERT_FALSE(stopped.ok());
    EXPECT_EQ(stopped.error().kind, Error::Kind::kInterrupted);
    set_interrupted(false);
    calls = 0;
    backend_.on_attention = [&] { ++calls; };
    run_well(writing("parts", Form::kMixed, 20 * 64));
    if (stop == second_batch) {
      EXPECT_LT(calls, all);
    }
    EXPECT_EQ(bytes("parts"), bytes("whole"));
    fs::remove_all(path("parts"));
  }
}

TEST_F(SelfWritten, SavedStatisticsRememberTheGeneratedText) {
  CompressRequest saving = writing("saving", Form::kMixed);
  saving.statistics = path("statistics");
  run_well(saving);
  CompressRequest reading = writing("reading", Form::kMixed);
  reading.statistics = path("statistics");
  run_well(reading);
  EXPECT_EQ(bytes("saving"), bytes("reading"));
  CompressRequest other = writing("other", Form::kMixed);
  other.statistics = path("statistics");
  other.calibration->seed = 8;
  expect_refused(other, {"written by the model, seed 7", "written by the model, seed 8"});
}

TEST_F(SelfWritten, TooFewTokensOrTwoTextsAreRefused) {
  expect_refused(writing("out", Form::kMixed, kHidden), {"more than 32 tokens", "found 32"});
  CompressRequest both = writing("out", Form::kMixed);
  both.calibration->texts = {{"text.txt", text_}};
  expect_refused(both, {"exclude each other"});
  EXPECT_FALSE(fs::exists(path("out.partial")));
}

}  // namespace
}  // namespace neuronmm::compress
