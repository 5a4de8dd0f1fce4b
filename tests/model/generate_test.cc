// This test checks generation on every backend: tokens against whole forward passes, batches,
// prompt caches, limits and errors.

#include "model/generate.h"

#include <algorithm>
#include <cmath>
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

TEST_P(GenerateTest, EveryGreedyTokenIsTheArgmaxOfTheWholeSequence) {
  std::vector<TokenId> streamed, sequence = prompt;
  const auto generation = generate(transformer, prompt, {.max_new_tokens = 12}, [&](TokenId token) {
    streamed.push_back(token);
    return true;
  });
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
               [&](TokenId token) {
                 emitted_stop |= token == stop_token;
                 return true;
               });
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

TEST_P(GenerateTest, AnInterruptKeepsTheTokensSoFar) {
  const auto whole = generate(transformer, prompt, {.max_new_tokens = 12});
  ASSERT_TRUE(whole.ok());
  int made = 0;
  const auto cut = generate(transformer, prompt, {.max_new_tokens = 12}, [&](TokenId) {
    if (++made == 4) set_interrupted(true);
    return true;
  });
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(cut->stop, Stop::kInterrupted);
  EXPECT_EQ(cut->tokens, std::vector<TokenId>(whole->tokens.begin(), whole->tokens.begin() + 4));
  const auto nothing = generate(transformer, prompt, {.max_new_tokens = 12});
  ASSERT_TRUE(nothing.ok());
  EXPECT_EQ(nothing->stop, Stop::kInterrupted);
  EXPECT_TRUE(nothing->tokens.empty());
}

TEST_P(GenerateTest, ACallerMayEndASequence) {
  const auto whole = generate(transformer, prompt, {.max_new_tokens = 12});
  ASSERT_TRUE(whole.ok());
  int made = 0;
  const auto ended =
      generate(transformer, prompt, {.max_new_tokens = 12}, [&](TokenId) { return ++made < 5; });
  ASSERT_TRUE(ended.ok());
  EXPECT_EQ(ended->stop, Stop::kCaller);
  EXPECT_EQ(ended->tokens, std::vector<TokenId>(whole->tokens.begin(), whole->tokens.begin() + 5));
  const auto both =
      generate_batch(transformer, std::vector<std::vector<TokenId>>(2, prompt),
                     {.max_new_tokens = 12}, [](int64_t i, TokenId) { return i == 1; });
  ASSERT_TRUE(both.ok());
  EXPECT_EQ((*both)[0].tokens.size(), 1u);
  EXPECT_EQ((*both)[0].stop, Stop::kCaller);
  EXPECT_EQ((*both)[1].tokens, whole->tokens);
}

TEST_P(GenerateTest, PresencePenaltyIgnoresThePrompt) {
  // The penalty is so large that no token comes twice; tokens of the prompt may still come.
  const SamplingOptions sampling = {.presence_penalty = 1e6};
  const auto generation =
      generate(transformer, prompt, {.max_new_tokens = 19, .sampling = sampling});
  ASSERT_TRUE(generation.ok()) << generation.error().message;
  std::vector<TokenId> tokens = generation->tokens;
  std::ranges::sort(tokens);
  for (TokenId id = 0; id < 19; ++id) EXPECT_EQ(tokens[static_cast<size_t>(id)], id);
}

TEST_P(GenerateTest, LogitBiasesForbidAndForceTokens) {
  const auto forced =
      generate(transformer, prompt, {.max_new_tokens = 3, .sampling = {.logit_bias = {{7, 1e6}}}});
  ASSERT_TRUE(forced.ok()) << forced.error().message;
  EXPECT_EQ(forced->tokens, (std::vector<TokenId>{7, 7, 7}));
  for (const TokenId id : {-1, 19}) {
    const auto refused = generate(transformer, prompt, {.sampling = {.logit_bias = {{id, 1.0}}}});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().message,
              fmt::format("the bias of token {}: expected an id from 0 to 18", id));
  }
}

TEST_P(GenerateTest, LogprobsAreTheModelsOwnProbabilities) {
  GenerateOptions options = {.max_new_tokens = 6,
                             .sampling = {.temperature = 3.0, .logit_bias = {{2, 1.5}}, .seed = 4},
                             .logprobs = 3};
  const auto generation = generate(transformer, prompt, options);
  ASSERT_TRUE(generation.ok()) << generation.error().message;
  ASSERT_EQ(generation->logprobs.size(), 6u);
  std::vector<TokenId> sequence = prompt;
  for (size_t i = 0; i < 6; ++i) {
    const Matrix logits = all_logits(transformer, sequence);
    const float* last = logits.row(logits.rows() - 1);
    double sum = 0.0;
    for (int id = 0; id < 19; ++id) sum += std::exp(last[id]);
    const TokenLogprobs& found = generation->logprobs[i];
    const TokenId token = generation->tokens[i];
    EXPECT_EQ(found.chosen.id, token);
    EXPECT_NEAR(found.chosen.logprob, last[token] - std::log(sum), 1e-4);
    ASSERT_EQ(found.top.size(), 3u);
    EXPECT_EQ(found.top[0].id, most_likely_after(transformer, sequence));
    sequence.push_back(token);
  }
  options.logprobs.reset();
  EXPECT_TRUE(generate(transformer, prompt, options)->logprobs.empty());
}

// The batch has prompts shorter and longer than a piece, sequences that end early, and one that
// fills its context.
TEST_P(GenerateTest, ABatchGivesTheTokensOfItsPromptsAlone) {
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
    return true;
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

// Some turns continue the conversation and some begin again in the middle of it. They have a longer
// prompt, a shorter one, and the same prompt again. Each gives the tokens that it gives without a
// cache.
TEST_P(GenerateTest, APromptCacheDoesNotChangeTheTokens) {
  config.max_position_embeddings = 700;
  const Transformer long_context = make_tiny(config, *backend);
  const std::vector<TokenId> text = random_tokens(640, config.vocab_size, 12);
  PromptCache cache(long_context);
  struct Turn {
    int64_t same, other, reused;
  };
  // A turn keeps the first `same` tokens of the cache and continues with `other` tokens that were
  // not there.
  const Turn turns[] = {{0, 140, 0}, {143, 3, 143}, {145, 400, 145}, {97, 31, 97}, {5, 1, 5}};
  std::vector<TokenId> held;
  for (const Turn& turn : turns) {
    SCOPED_TRACE(turn.same);
    std::vector<TokenId> tokens(held.begin(), held.begin() + turn.same);
    for (int64_t i = 0; i < turn.other; ++i) {
      const auto at = static_cast<size_t>(turn.same + i);
      TokenId next = text[at];
      if (at < held.size() && next == held[at]) next = next == 0 ? 1 : 0;
      tokens.push_back(next);
    }
    const auto with = generate(long_context, tokens, {.max_new_tokens = 6}, {}, &cache);
    const auto without = generate(long_context, tokens, {.max_new_tokens = 6});
    ASSERT_TRUE(with.ok() && without.ok());
    EXPECT_EQ(with->tokens, without->tokens);
    EXPECT_EQ(with->reused_tokens, turn.reused);
    EXPECT_EQ(without->reused_tokens, 0);
    const auto again = generate(long_context, tokens, {.max_new_tokens = 6}, {}, &cache);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->tokens, without->tokens);
    EXPECT_EQ(again->reused_tokens, std::ssize(tokens) - 1);
    held = tokens;
    held.insert(held.end(), without->tokens.begin(), without->tokens.end());
  }
}

// An interrupted run leaves tokens behind that the cache does not count as the new prompt's.
TEST_P(GenerateTest, APromptCacheSurvivesAnInterrupt) {
  config.max_position_embeddings = 1100;
  const Transformer long_context = make_tiny(config, *backend);
  const std::vector<TokenId> tokens = random_tokens(1030, config.vocab_size, 13);
  PromptCache cache(long_context);
  set_interrupted(true);
  ASSERT_EQ(generate(long_context, tokens, {}, {}, &cache)->stop, Stop::kInterrupted);
  set_interrupted(false);
  const GenerateOptions options{.max_new_tokens = 9};
  const auto cut_short = generate(
      long_context, tokens, options,
      [made = 0](TokenId) mutable {
        if (++made == 3) set_interrupted(true);
        return true;
      },
      &cache);
  set_interrupted(false);
  ASSERT_EQ(cut_short->tokens.size(), 3u);
  EXPECT_EQ(generate(long_context, tokens, options, {}, &cache)->tokens,
            generate(long_context, tokens, options)->tokens);
}

TEST_P(GenerateTest, ZeroNewTokensGenerateNothing) {
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

TEST(StopTokens, GenerationConfigOverridesConfig) {
  io::ModelConfig config;
  config.vocab_size = 9;
  config.eos_token_ids = {7, 8};
  EXPECT_EQ(stop_tokens_of({}, config), (std::vector<TokenId>{7, 8}));
  EXPECT_EQ(stop_tokens_of({.eos_token_ids = {{2}}}, config), std::vector<TokenId>{2});
  EXPECT_EQ(stop_tokens_of({.eos_token_ids = std::vector<TokenId>()}, config),
            std::vector<TokenId>());
  EXPECT_EQ(stop_tokens_of({.eos_token_ids = {{9, 2}}}, config), std::vector<TokenId>{2})
      << "an id outside the vocabulary";
}

// A folder whose files list no ends has those of its vocabulary.
TEST(StopTokens, WithoutAListTheVocabularyDecides) {
  const auto tokenizer = text::Tokenizer::parse(
      R"({"added_tokens": [{"id": 1, "content": "<|im_end|>", "special": true},
                           {"id": 2, "content": "<|endoftext|>", "special": true},
                           {"id": 3, "content": "<EOT>", "special": false}],
          "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})",
      "tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  io::ModelConfig config;
  config.vocab_size = 9;
  EXPECT_EQ(stop_tokens_of({}, config, *tokenizer), (std::vector<TokenId>{1, 2}));
  config.vocab_size = 2;
  EXPECT_EQ(stop_tokens_of({}, config, *tokenizer), std::vector<TokenId>{1});
  config.eos_token_ids = {0};
  EXPECT_EQ(stop_tokens_of({}, config, *tokenizer), std::vector<TokenId>{0});
  EXPECT_EQ(stop_tokens_of({.eos_token_ids = std::vector<TokenId>()}, config, *tokenizer),
            std::vector<TokenId>());
}

GenerateOptions applied(const io::GenerationConfig& config, GenerateOptions options = {}) {
  apply_generation_config(config, options);
  return options;
}

TEST(GenerationDefaults, DoSampleDecidesBetweenDrawingAndGreedy) {
  EXPECT_EQ(applied({.do_sample = true}).sampling.temperature, 1.0);
  EXPECT_EQ(applied({.do_sample = true, .temperature = 0.6}).sampling.temperature, 0.6);
  EXPECT_EQ(applied({.do_sample = false, .temperature = 0.6}).sampling.temperature, 0.0);
  const GenerateOptions warm = {.sampling = {.temperature = 0.5}};
  EXPECT_EQ(applied({.temperature = 0.6}, warm).sampling.temperature, 0.0);
  EXPECT_EQ(applied({}, warm).sampling.temperature, 0.5);
}

TEST(GenerationDefaults, MissingFieldsKeepTheirValues) {
  const GenerateOptions all = applied(
      {.top_k = 20, .top_p = 0.8, .min_p = 0.05, .repetition_penalty = 1.1, .max_new_tokens = 9});
  EXPECT_EQ(all.sampling.top_k, 20);
  EXPECT_EQ(all.sampling.top_p, 0.8);
  EXPECT_EQ(all.sampling.min_p, 0.05);
  EXPECT_EQ(all.sampling.repetition_penalty, 1.1);
  EXPECT_EQ(all.max_new_tokens, 9);
  const GenerateOptions none = applied({}, all);
  EXPECT_EQ(none.sampling.top_k, 20);
  EXPECT_EQ(none.sampling.min_p, 0.05);
  EXPECT_EQ(none.max_new_tokens, 9);
}

}  // namespace
}  // namespace neuronmm::model
