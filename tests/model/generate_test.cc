#include "model/generate.h"

#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include "base/interrupt.h"
#include "model/backends.h"
#include "model/tiny_model.h"

namespace neuronmm::model {
namespace {

using Stop = Generation::Stop;

Transformer make_tiny(const io::ModelConfig& config, const ops::Backend& backend) {
  auto transformer = load_tiny(config, random_tensors(config, 77), backend);
  NMM_CHECK(transformer.ok());
  return std::move(transformer).value();
}

TokenId most_likely_after(const Transformer& transformer, const std::vector<TokenId>& tokens) {
  const Matrix logits = all_logits(transformer, tokens);
  const float* last = logits.row(logits.rows() - 1);
  return static_cast<TokenId>(std::max_element(last, last + logits.columns()) - last);
}

class GenerateTest : public OnBackend {
 protected:
  void TearDown() override { set_interrupted(false); }
  io::ModelConfig config = tiny_config(io::Architecture::kLlama);
  Transformer transformer = make_tiny(config, *backend);
  const std::vector<TokenId> prompt = {3, 1, 4, 1, 5};
};
NMM_ON_ALL_BACKENDS(GenerateTest);

TEST_P(GenerateTest, GreedyIsTheArgmaxOfTheWholeSequenceEveryTime) {
  std::vector<TokenId> streamed, sequence = prompt;
  const auto generation = generate(transformer, prompt, {.max_new_tokens = 12},
                                   [&](TokenId token) { streamed.push_back(token); });
  ASSERT_TRUE(generation.ok()) << generation.error().message;
  EXPECT_EQ(generation->stop, Stop::kLimit);
  ASSERT_EQ(generation->tokens.size(), 12u);
  EXPECT_EQ(streamed, generation->tokens);
  for (TokenId token : generation->tokens) {
    EXPECT_EQ(token, most_likely_after(transformer, sequence));
    sequence.push_back(token);
  }
  EXPECT_EQ(generation->decode_latencies_s.size(), 11u);
  EXPECT_GT(generation->time_to_first_token_s, 0.0);
  for (double latency : generation->decode_latencies_s) EXPECT_GT(latency, 0.0);
}

TEST_P(GenerateTest, PromptsLongerThanOnePrefillPieceGiveTheSameToken) {
  config.max_position_embeddings = 1100;
  const Transformer long_context = make_tiny(config, *backend);
  for (int64_t length : {511, 512, 513, 1025}) {
    const std::vector<TokenId> tokens = random_tokens(length, config.vocab_size, 5);
    const auto generation = generate(long_context, tokens, {.max_new_tokens = 1});
    ASSERT_TRUE(generation.ok()) << generation.error().message;
    EXPECT_EQ(generation->tokens, std::vector{most_likely_after(long_context, tokens)}) << length;
  }
}

TEST_P(GenerateTest, StopsBeforeAStopToken) {
  const auto free_run = generate(transformer, prompt, {.max_new_tokens = 12});
  ASSERT_TRUE(free_run.ok());
  const TokenId stop_token = free_run->tokens[4];
  const auto first = std::find(free_run->tokens.begin(), free_run->tokens.end(), stop_token);
  bool emitted_stop = false;
  const auto stopped =
      generate(transformer, prompt, {.max_new_tokens = 12, .stop_tokens = {9999, stop_token}},
               [&](TokenId token) { emitted_stop |= token == stop_token; });
  ASSERT_TRUE(stopped.ok());
  EXPECT_EQ(stopped->stop, Stop::kStopToken);
  EXPECT_EQ(stopped->tokens, std::vector<TokenId>(free_run->tokens.begin(), first));
  EXPECT_FALSE(emitted_stop);
  EXPECT_EQ(stopped->decode_latencies_s.size(), stopped->tokens.size());
}

TEST_P(GenerateTest, EndsWhenTheContextIsFull) {
  const auto generation =
      generate(transformer, prompt, {.max_new_tokens = std::numeric_limits<int64_t>::max()});
  ASSERT_TRUE(generation.ok()) << generation.error().message;
  EXPECT_EQ(generation->stop, Stop::kContextFull);
  EXPECT_EQ(generation->tokens.size(), 64u - prompt.size());
  const auto exact = generate(transformer, prompt, {.max_new_tokens = 59});
  ASSERT_TRUE(exact.ok());
  EXPECT_EQ(exact->stop, Stop::kLimit);
  EXPECT_EQ(exact->tokens, generation->tokens);
}

TEST_P(GenerateTest, SamplingIsReproducibleBySeed) {
  const auto run = [&](uint64_t seed) {
    const auto generation = generate(
        transformer, prompt,
        {.max_new_tokens = 30, .sampling = {.temperature = 1.5, .top_k = 10, .seed = seed}});
    return generation.ok() ? generation->tokens : std::vector<TokenId>{};
  };
  EXPECT_EQ(run(1).size(), 30u);
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST_P(GenerateTest, RepetitionPenaltySeesPromptAndAnswer) {
  const SamplingOptions sampling = {.repetition_penalty = 1.8};
  const auto generation =
      generate(transformer, prompt, {.max_new_tokens = 15, .sampling = sampling});
  ASSERT_TRUE(generation.ok());
  std::vector<TokenId> sequence = prompt;
  Sampler sampler(sampling);
  for (TokenId token : generation->tokens) {
    const Matrix logits = all_logits(transformer, sequence);
    const std::span<const float> last(logits.row(logits.rows() - 1), 19);
    EXPECT_EQ(token, sampler.sample(last, sequence));
    sequence.push_back(token);
  }
  const auto unpunished = generate(transformer, prompt, {.max_new_tokens = 15});
  ASSERT_TRUE(unpunished.ok());
  EXPECT_NE(generation->tokens, unpunished->tokens);
}

TEST_P(GenerateTest, AnInterruptKeepsWhatWasMade) {
  const auto whole = generate(transformer, prompt, {.max_new_tokens = 12});
  ASSERT_TRUE(whole.ok());
  int made = 0;
  const auto cut = generate(transformer, prompt, {.max_new_tokens = 12}, [&](TokenId) {
    if (++made == 4) set_interrupted(true);
  });
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(cut->stop, Stop::kInterrupted);
  EXPECT_EQ(cut->tokens, std::vector<TokenId>(whole->tokens.begin(), whole->tokens.begin() + 4));
  const auto nothing = generate(transformer, prompt, {.max_new_tokens = 12});
  ASSERT_TRUE(nothing.ok());
  EXPECT_EQ(nothing->stop, Stop::kInterrupted);
  EXPECT_TRUE(nothing->tokens.empty());
}

// Prompts shorter and longer than a piece, sequences that end early, one that fills its context.
TEST_P(GenerateTest, ABatchIsItsPrompts) {
  config.max_position_embeddings = 706;
  const Transformer model = make_tiny(config, *backend);
  std::vector<std::vector<TokenId>> prompts;
  for (const int64_t length : {5, 700, 1, 300, 20}) {
    prompts.push_back(random_tokens(length, config.vocab_size, 40 + prompts.size()));
  }
  GenerateOptions options = {.max_new_tokens = 9};
  const auto first = generate(model, prompts[0], options);
  ASSERT_TRUE(first.ok()) << first.error().message;
  options.stop_tokens = {first->tokens[2]};

  std::vector<std::vector<TokenId>> streamed(prompts.size());
  const auto together = generate_batch(model, prompts, options, [&](int64_t i, TokenId token) {
    streamed[static_cast<size_t>(i)].push_back(token);
  });
  ASSERT_TRUE(together.ok()) << together.error().message;
  ASSERT_EQ(together->size(), prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    SCOPED_TRACE(i);
    const auto alone = generate(model, prompts[i], options);
    ASSERT_TRUE(alone.ok()) << alone.error().message;
    const Generation& one = (*together)[i];
    EXPECT_EQ(one.tokens, alone->tokens);
    EXPECT_EQ(one.stop, alone->stop);
    EXPECT_EQ(one.decode_latencies_s.size(), alone->decode_latencies_s.size());
    EXPECT_EQ(streamed[i], one.tokens);
    EXPECT_GT(one.time_to_first_token_s, 0.0);
  }
}

TEST_P(GenerateTest, SequencesOfABatchSampleDifferently) {
  const GenerateOptions options = {.max_new_tokens = 15,
                                   .sampling = {.temperature = 2.0, .seed = 3}};
  const auto together =
      generate_batch(transformer, std::vector<std::vector<TokenId>>(2, prompt), options);
  ASSERT_TRUE(together.ok()) << together.error().message;
  EXPECT_NE((*together)[0].tokens, (*together)[1].tokens);
  EXPECT_EQ((*together)[0].tokens, generate(transformer, prompt, options)->tokens);
}

TEST_P(GenerateTest, ABatchRefusesABadPromptAndMayBeEmpty) {
  EXPECT_TRUE(generate_batch(transformer, {}, {})->empty());
  const std::vector<std::vector<TokenId>> prompts = {prompt, {}};
  EXPECT_FALSE(generate_batch(transformer, prompts, {}).ok());
}

TEST_P(GenerateTest, NothingIsMadeWhenNothingIsAsked) {
  const auto generation = generate(transformer, prompt, {.max_new_tokens = 0});
  ASSERT_TRUE(generation.ok());
  EXPECT_EQ(generation->stop, Stop::kLimit);
  EXPECT_TRUE(generation->tokens.empty());
}

TEST_P(GenerateTest, RefusesPromptsItCannotContinue) {
  const auto message = [&](const std::vector<TokenId>& tokens) {
    const auto generation = generate(transformer, tokens, {});
    return generation.ok() ? "" : generation.error().message;
  };
  EXPECT_NE(message({}).find("empty"), std::string::npos);
  const std::string too_long = message(std::vector<TokenId>(64, 1));
  EXPECT_NE(too_long.find("prompt has 64 tokens"), std::string::npos) << too_long;
  EXPECT_NE(too_long.find("fewer than 64"), std::string::npos) << too_long;
  EXPECT_EQ(message(std::vector<TokenId>(63, 1)), "");
  EXPECT_NE(message({1, 19}).find("19 at position 1"), std::string::npos);
  EXPECT_NE(message({-7}).find("-7 at position 0"), std::string::npos);
}

TEST_P(GenerateTest, ReportsLogitsThatAreNotFinite) {
  for (float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    TestTensors tensors = random_tensors(config, 77);
    tensors.at("lm_head.weight").values[3 * 16] = bad;
    const auto broken = load_tiny(config, tensors, *backend);
    ASSERT_TRUE(broken.ok()) << broken.error().message;
    const auto generation = generate(*broken, prompt, {});
    ASSERT_FALSE(generation.ok());
    EXPECT_NE(generation.error().message.find("for token 3 at position 5"), std::string::npos)
        << generation.error().message;
  }
}

class StopTokens : public testing::Test {
 protected:
  Result<std::vector<TokenId>> read(const std::string& generation_config) {
    folder.write_text("generation_config.json", generation_config);
    return stop_tokens_of(folder.path(), config);
  }
  const ModelFolder folder;
  io::ModelConfig config;
};

TEST_F(StopTokens, GenerationConfigComesBeforeConfig) {
  config.eos_token_ids = {7, 8};
  const auto without_file = stop_tokens_of(folder.path(), config);
  ASSERT_TRUE(without_file.ok()) << without_file.error().message;
  EXPECT_EQ(*without_file, (std::vector<TokenId>{7, 8}));
  const std::vector<std::pair<std::string, std::vector<TokenId>>> cases = {
      {R"({"eos_token_id": 2})", {2}},
      {R"({"eos_token_id": [128001, 128008, 128009], "top_p": 0.9})", {128001, 128008, 128009}},
      {R"({"eos_token_id": []})", {}},
      {R"({"eos_token_id": null})", {7, 8}},
      {R"({})", {7, 8}}};
  for (const auto& [text, expected] : cases) {
    const auto tokens = read(text);
    ASSERT_TRUE(tokens.ok()) << tokens.error().message;
    EXPECT_EQ(*tokens, expected) << text;
  }
}

TEST_F(StopTokens, RefusesWhatIsNotTokenIds) {
  for (const char* text :
       {R"({"eos_token_id": "2"})", R"({"eos_token_id": -1})", R"({"eos_token_id": 2.5})",
        R"({"eos_token_id": [1, [2]]})", R"({"eos_token_id": 2147483648})",
        R"({"eos_token_id": {}})", R"([2])", R"({"eos_token_id": 2)", ""}) {
    const auto tokens = read(text);
    ASSERT_FALSE(tokens.ok()) << text;
    EXPECT_NE(tokens.error().message.find("generation_config.json"), std::string::npos)
        << tokens.error().message;
  }
}

}  // namespace
}  // namespace neuronmm::model
