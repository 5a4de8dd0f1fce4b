// This test checks that generate() makes the same texts with a draft as without one, bit for bit:
// greedy and drawn texts, with penalties, log-probabilities, limits and prompt caches, for one and
// several sequences, and for drafts that are right, wrong or broken.

#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include "cpu/backend.h"
#include "model/backends.h"
#include "model/draft_model.h"
#include "model/drafting.h"
#include "model/generate.h"
#include "model/llama2c.h"
#include "model/ngram_draft.h"
#include "model/tiny_model.h"
#include "places.h"
#include "test_data.h"

namespace neuronmm::model {
namespace {

using Tokens = std::vector<TokenId>;

void expect_same(const Generation& found, const Generation& right) {
  EXPECT_EQ(found.tokens, right.tokens);
  EXPECT_EQ(found.stop, right.stop);
  EXPECT_EQ(found.decode_latencies_s.size(), right.decode_latencies_s.size());
  ASSERT_EQ(found.logprobs.size(), right.logprobs.size());
  for (size_t i = 0; i < found.logprobs.size(); ++i) {
    ASSERT_EQ(found.logprobs[i].chosen.id, right.logprobs[i].chosen.id);
    ASSERT_EQ(found.logprobs[i].chosen.logprob, right.logprobs[i].chosen.logprob) << i;
    ASSERT_EQ(found.logprobs[i].top.size(), right.logprobs[i].top.size());
    for (size_t k = 0; k < found.logprobs[i].top.size(); ++k)
      ASSERT_EQ(found.logprobs[i].top[k].logprob, right.logprobs[i].top[k].logprob);
  }
}

// Options of all kinds that decide what follows.
std::vector<GenerateOptions> all_options() {
  std::vector<GenerateOptions> all;
  all.push_back({.max_new_tokens = 60});
  all.push_back({.max_new_tokens = 60, .logprobs = 3});
  all.push_back({.max_new_tokens = 60, .stop_tokens = {7, 11}, .min_new_tokens = 9});
  all.push_back({.max_new_tokens = 2});
  all.push_back({.max_new_tokens = 1000});  // until the context is full
  for (const uint64_t seed : {1, 2}) {
    all.push_back({.max_new_tokens = 60, .sampling = {.temperature = 1.0, .seed = seed}});
    all.push_back({.max_new_tokens = 60,
                   .sampling = {.temperature = 0.6, .top_k = 5, .top_p = 0.9, .seed = seed},
                   .stop_tokens = {7},
                   .logprobs = 2});
    all.push_back({.max_new_tokens = 60,
                   .sampling = {.temperature = 1.5,
                                .min_p = 0.05,
                                .xtc_probability = 0.5,
                                .repetition_penalty = 1.3,
                                .frequency_penalty = 0.2,
                                .presence_penalty = 0.1,
                                .logit_bias = {{4, 2.0f}},
                                .seed = seed}});
  }
  all.push_back({.max_new_tokens = 60, .sampling = {.repetition_penalty = 1.5}});
  return all;
}

io::ModelConfig config_with_context(int64_t tokens) {
  io::ModelConfig config = tiny_config(io::Architecture::kLlama);
  config.max_position_embeddings = tokens;
  return config;
}

class SpeculativeGenerate : public OnBackend {
 protected:
  TimelessBackend timeless{*backend};
  io::ModelConfig config = config_with_context(100);
  Transformer transformer = load_tiny(config, random_tensors(config, 77), timeless).value();
  Transformer other = load_tiny(config, random_tensors(config, 78), timeless).value();
  const Tokens prompt = {3, 1, 4, 1, 5};

  std::unique_ptr<Draft> model_draft(const Transformer& draft) const {
    return std::make_unique<DraftModel>(draft, make_draft_caches(draft), config.vocab_size, 512);
  }
  // Returns a draft that is right, one that is often wrong, a lookup, and one that is always wrong
  // if it is asked before token 12 and sometimes right afterwards.
  std::vector<std::unique_ptr<Draft>> all_drafts() const {
    std::vector<std::unique_ptr<Draft>> drafts;
    drafts.push_back(model_draft(transformer));
    drafts.push_back(model_draft(other));
    drafts.push_back(std::make_unique<NgramDraft>(config.vocab_size));
    drafts.push_back(std::make_unique<ScriptedDraft>([](const Continuation& text) {
      return text.tokens().size() < 12 ? Tokens{18, 17, 16} : Tokens{5, 5, 5, 5, 5, 5};
    }));
    return drafts;
  }
};
NMM_ON_ALL_BACKENDS(SpeculativeGenerate);

TEST_P(SpeculativeGenerate, MakesTheSameTextWithEveryDraft) {
  for (const GenerateOptions& options : all_options()) {
    const auto right = generate(transformer, prompt, options);
    ASSERT_TRUE(right.ok()) << right.error().message;
    for (std::unique_ptr<Draft>& draft : all_drafts()) {
      Speculation speculation(std::move(draft), timeless);
      Tokens told;
      const auto found = generate(
          transformer, prompt, options,
          [&](TokenId token) {
            told.push_back(token);
            return true;
          },
          nullptr, &speculation);
      ASSERT_TRUE(found.ok()) << found.error().message;
      expect_same(*found, *right);
      EXPECT_EQ(told, right->tokens);
      EXPECT_FALSE(speculation.failure()) << *speculation.failure();
      EXPECT_LE(found->draft.accepted, found->draft.proposed);
    }
  }
}

TEST_P(SpeculativeGenerate, AcceptsEverythingFromItself) {
  for (const double temperature : {0.0, 0.8}) {
    Speculation speculation(model_draft(transformer), timeless);
    const GenerateOptions options = {
        .max_new_tokens = 60,
        .sampling = {.temperature = temperature, .repetition_penalty = 1.2, .seed = 5}};
    const auto made = generate(transformer, prompt, options, {}, nullptr, &speculation);
    ASSERT_TRUE(made.ok()) << made.error().message;
    EXPECT_EQ(made->tokens.size(), 60u);
    EXPECT_GT(made->draft.proposed, 30);
    EXPECT_EQ(made->draft.accepted, made->draft.proposed);
    EXPECT_EQ(speculation.counts().accepted, made->draft.accepted);
  }
}

TEST_P(SpeculativeGenerate, MakesTheSameTextsOfABatch) {
  const std::vector<Tokens> prompts = {{3, 1, 4, 1, 5}, {2, 7}, {9}, {1, 2, 1, 2, 1, 2}};
  for (GenerateOptions options : all_options()) {
    const auto right = generate_batch(transformer, prompts, options);
    ASSERT_TRUE(right.ok());
    for (std::unique_ptr<Draft>& draft : all_drafts()) {
      Speculation speculation(std::move(draft), timeless);
      const auto found = generate_batch(transformer, prompts, options, {}, &speculation);
      ASSERT_TRUE(found.ok()) << found.error().message;
      for (size_t i = 0; i < prompts.size(); ++i) expect_same((*found)[i], (*right)[i]);
    }
  }
}

// The caller, too, sees and gets no token after the one at which it ends the text, although more of
// them were accepted.
TEST_P(SpeculativeGenerate, EndsWhereTheCallerSaysSo) {
  for (int64_t most = 1; most < 20; ++most) {
    Speculation speculation(model_draft(transformer), timeless);
    int64_t told = 0;
    const auto made = generate(
        transformer, prompt, {.max_new_tokens = 60, .logprobs = 0},
        [&](TokenId) { return ++told < most; }, nullptr, &speculation);
    ASSERT_TRUE(made.ok());
    EXPECT_EQ(told, most);
    EXPECT_EQ(std::ssize(made->tokens), most);
    EXPECT_EQ(std::ssize(made->logprobs), most);
    EXPECT_EQ(made->stop, Generation::Stop::kCaller);
  }
}

// In a conversation both caches keep what the next prompt begins with.
TEST_P(SpeculativeGenerate, GoesOnWithAConversation) {
  Speculation speculation(model_draft(transformer), timeless);
  PromptCache with(transformer), without(transformer);
  Tokens text = prompt;
  for (int turn = 0; turn < 4; ++turn) {
    const GenerateOptions options = {.max_new_tokens = 15};
    const auto right = generate(transformer, text, options, {}, &without);
    const auto found = generate(transformer, text, options, {}, &with, &speculation);
    ASSERT_TRUE(right.ok() && found.ok());
    expect_same(*found, *right);
    EXPECT_GE(found->reused_tokens, right->reused_tokens);
    EXPECT_EQ(found->draft.accepted, found->draft.proposed);
    text.insert(text.end(), found->tokens.begin(), found->tokens.end() - turn);
    text.push_back(2);
  }
}

TEST_P(SpeculativeGenerate, GoesOnWithoutADraftThatFails) {
  const GenerateOptions options = {.max_new_tokens = 40};
  const auto right = generate(transformer, prompt, options);
  ASSERT_TRUE(right.ok());
  int64_t calls = 0;
  const auto fail_later = [&](const Continuation&) -> Tokens {
    if (++calls == 3) throw std::bad_alloc();
    return {5};
  };
  Speculation failing(std::make_unique<ScriptedDraft>(fail_later), timeless);
  const auto found = generate(transformer, prompt, options, {}, nullptr, &failing);
  ASSERT_TRUE(found.ok());
  expect_same(*found, *right);
  EXPECT_TRUE(failing.failure());
  EXPECT_EQ(calls, 3);
}

// A clock that says how much was computed: a row of the draft takes as long as a row of the model.
class CountingBackend : public ops::ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  Status prepare(int64_t tokens) const override {
    seconds_ += 1.0;
    return inner().prepare(tokens);
  }
  double clock_seconds() const override { return seconds_; }

 private:
  mutable double seconds_ = 0.0;
};

// A draft that is as slow as the model never pays, whether it is right or wrong.
TEST_P(SpeculativeGenerate, ASlowDraftIsHardlyUsed) {
  config = config_with_context(1000);
  const CountingBackend counting(*backend);
  const Transformer model = load_tiny(config, random_tensors(config, 77), counting).value();
  for (const uint64_t seed : {77, 78}) {
    const Transformer draft = load_tiny(config, random_tensors(config, seed), counting).value();
    Speculation speculation(model_draft(draft), counting);
    const double start = counting.clock_seconds();
    const auto made = generate(model, prompt, {.max_new_tokens = 600}, {}, nullptr, &speculation);
    ASSERT_TRUE(made.ok());
    EXPECT_LT(counting.clock_seconds() - start, 600 * 1.1) << seed;
  }
}

// The demo model is trained, so that a smaller part of it is a good draft.
TEST(SpeculativeStories, TheDemoTellsItsStoryWithItsFirstLayerAsDraft) {
  const auto host = cpu::make_backend();
  const TimelessBackend timeless(*host);
  const auto model = Transformer::load(source_dir() / "models/demo", timeless);
  const auto draft = Transformer::load(one_layer_model(), timeless);
  ASSERT_TRUE(model.ok() && draft.ok());
  const int64_t vocabulary = model->config().vocab_size;
  const std::vector<Tokens> prompts = {{289, 687, 1326, 13}, {100, 200}, {300}};
  for (const double temperature : {0.0, 0.8}) {
    const GenerateOptions options = {
        .max_new_tokens = 120, .sampling = {.temperature = temperature, .seed = 3}, .logprobs = 1};
    const auto right = generate_batch(*model, prompts, options);
    ASSERT_TRUE(right.ok());
    Speculation by_model(
        std::make_unique<DraftModel>(*draft, make_draft_caches(*draft), vocabulary, 512), timeless);
    Speculation by_lookup(std::make_unique<NgramDraft>(vocabulary), timeless);
    for (Speculation* const speculation : {&by_model, &by_lookup}) {
      const auto found = generate_batch(*model, prompts, options, {}, speculation);
      ASSERT_TRUE(found.ok());
      for (size_t i = 0; i < prompts.size(); ++i) expect_same((*found)[i], (*right)[i]);
      const auto alone = generate(*model, prompts[0], options, {}, nullptr, speculation);
      ASSERT_TRUE(alone.ok());
      expect_same(*alone, (*right)[0]);
    }
    EXPECT_GT(by_model.counts().accepted, 0);
  }
}

TEST(SpeculativeStories, Stories260KTellsItsStoryWithItselfAndWithALookup) {
  NMM_TEST_DATA_OR_SKIP(data, "models/stories260K");
  const Llama2c read = read_llama2c(data / "stories260K.bin");
  const auto host = cpu::make_backend();
  const TimelessBackend timeless(*host);
  const Transformer model = load_tiny(read.config, read.tensors, timeless).value();
  const GenerateOptions options = {.max_new_tokens = 240, .stop_tokens = {1}};
  const auto right = generate(model, Tokens{1}, options);
  ASSERT_TRUE(right.ok());
  Speculation by_model(
      std::make_unique<DraftModel>(model, make_draft_caches(model), read.config.vocab_size, 512),
      timeless);
  Speculation by_lookup(std::make_unique<NgramDraft>(read.config.vocab_size), timeless);
  for (Speculation* const speculation : {&by_model, &by_lookup}) {
    const auto found = generate(model, Tokens{1}, options, {}, nullptr, speculation);
    ASSERT_TRUE(found.ok());
    expect_same(*found, *right);
    EXPECT_GT(found->draft.accepted, 0);
  }
}

}  // namespace
}  // namespace neuronmm::model
