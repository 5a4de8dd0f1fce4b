// This test checks that the engine's answers with a draft are those without one, bit for bit, for
// many requests together, and that the engine goes on if its draft fails.

#include <algorithm>
#include <atomic>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "model/drafting.h"
#include "serve/engine/engine_support.h"

namespace neuronmm::serve {
namespace {

constexpr int64_t kVocabulary = 19;

class EngineSpeculation : public model::OnBackend {
 protected:
  model::TimelessBackend timeless{*backend};
  model::Transformer transformer = make_model(long_config(600), timeless);
  model::Transformer other = make_model(long_config(400), timeless, 78);

  // Returns options with a draft that is right, one that is often wrong and has a shorter context,
  // and a lookup.
  std::vector<EngineOptions> all_drafts() const {
    std::vector<EngineOptions> all(3);
    all[0].draft.model = &transformer;
    all[1].draft.model = &other;
    all[2].draft.lookup = true;
    return all;
  }
};
NMM_ON_ALL_BACKENDS(EngineSpeculation);

// Requests of all kinds, with prompts of several lengths that share beginnings.
std::vector<Request> mixed_requests() {
  std::vector<Request> requests;
  for (const int64_t length : {1, 5, 130, 300}) {
    for (uint64_t kind = 0; kind < 4; ++kind) {
      Request request;
      request.prompt = model::random_tokens(length, kVocabulary, 5);
      request.max_new_tokens = 40 + 20 * static_cast<int64_t>(kind);
      if (kind % 2 == 1) {
        request.sampling = {.temperature = 0.9, .top_p = 0.95, .frequency_penalty = 0.1};
        request.sampling.seed = kind;
      }
      if (kind >= 2) {
        request.logprobs = 2;
        request.stop_tokens = {7, 11};
        request.min_new_tokens = 12;
      }
      requests.push_back(request);
    }
  }
  return requests;
}

// Returns what generate() makes of the requests. No engine may run meanwhile.
std::vector<model::Generation> expected_answers(const model::Transformer& transformer,
                                                const std::vector<Request>& requests) {
  std::vector<model::Generation> expected;
  for (const Request& request : requests) expected.push_back(expected_answer(transformer, request));
  return expected;
}

// Submits all requests at once and waits for their answers.
std::vector<std::shared_ptr<Recorder>> submit_all(Engine& engine,
                                                  const std::vector<Request>& requests) {
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (const Request& request : requests) {
    recorders.push_back(std::make_shared<Recorder>(request.choices));
    EXPECT_FALSE(engine.submit(request, recorders.back()).refusal);
  }
  for (const auto& recorder : recorders) recorder->wait();
  return recorders;
}

TEST_P(EngineSpeculation, AnswersAreTheSameAsThoseOfGenerate) {
  const std::vector<Request> requests = mixed_requests();
  const auto expected = expected_answers(transformer, requests);
  for (const EngineOptions& options : all_drafts()) {
    Engine engine(transformer, options);
    const auto recorders = submit_all(engine, requests);
    int64_t generated = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      expect_answer(recorders[i]->answer(), expected[i]);
      generated += std::ssize(recorders[i]->answer().tokens);
    }
    expect_no_block_in_use(engine);
    const Statistics now = engine.statistics();
    EXPECT_TRUE(now.has_draft);
    EXPECT_EQ(now.generated_tokens, generated);
    EXPECT_GT(now.drafts, 0);
    EXPECT_GE(now.proposed_tokens, now.drafts);
    EXPECT_LE(now.accepted_tokens, now.proposed_tokens);
    if (options.draft.model == &transformer) {
      EXPECT_EQ(now.accepted_tokens, now.proposed_tokens);
    }
  }
}

// Memory for a few blocks only, so that sequences are preempted and proposals find no room.
TEST_P(EngineSpeculation, AnswersAreTheSameIfMemoryIsShort) {
  std::vector<Request> requests;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    Request request;
    request.prompt = model::random_tokens(100, kVocabulary, seed);
    request.max_new_tokens = 150;
    requests.push_back(request);
  }
  const auto expected = expected_answers(transformer, requests);
  int64_t preemptions = 0;  // on a busy machine all sequences of one engine may come one by one
  for (EngineOptions options : all_drafts()) {
    options.context_tokens = 500;
    options.kv_cache_bytes = 7 * kv_block_bytes(transformer, options);
    Engine engine(transformer, options);
    const auto recorders = submit_all(engine, requests);
    for (size_t i = 0; i < requests.size(); ++i) expect_answer(recorders[i]->answer(), expected[i]);
    preemptions += engine.statistics().preemptions;
    expect_no_block_in_use(engine);
  }
  EXPECT_GT(preemptions, 0);
}

TEST_P(EngineSpeculation, EachChoiceHasItsOwnSeed) {
  Request request;
  request.prompt = model::random_tokens(140, kVocabulary, 9);
  request.choices = 5;
  request.max_new_tokens = 50;
  request.sampling = {.temperature = 1.0, .seed = 3};
  for (const EngineOptions& options : all_drafts()) {
    Engine engine(transformer, options);
    const auto recorder = submit_and_wait(engine, request);
    engine.abort();
    for (int64_t choice = 0; choice < 5; ++choice)
      expect_answer(recorder->answer(static_cast<size_t>(choice)),
                    expected_answer(transformer, request, choice));
  }
}

// A constraint that allows each token of a set once, and then a stop token.
class EachTokenOnce : public model::TokenConstraint {
 public:
  EachTokenOnce(std::set<TokenId> tokens, TokenId end) : left_(std::move(tokens)), end_(end) {}
  void allowed_tokens(std::span<uint64_t> allowed) override {
    std::ranges::fill(allowed, 0);
    for (const TokenId id : left_) allowed[0] |= uint64_t{1} << id;
    if (left_.empty()) allowed[0] |= uint64_t{1} << end_;
  }
  void advance(TokenId token) override { EXPECT_EQ(left_.erase(token), 1u); }
  bool must_end() const override { return false; }
  std::unique_ptr<TokenConstraint> clone() const override {
    return std::make_unique<EachTokenOnce>(*this);
  }

 private:
  std::set<TokenId> left_;
  const TokenId end_;
};

TEST_P(EngineSpeculation, AnswersFollowTheirConstraint) {
  for (const double temperature : {0.0, 1.5}) {
    Request request;
    request.prompt = {5, 6};
    request.choices = 3;
    request.sampling = {.temperature = temperature, .seed = 1};
    request.stop_tokens = {18};
    request.logprobs = 1;
    request.make_constraint = [] {
      return std::make_unique<EachTokenOnce>(std::set<TokenId>{1, 2, 4, 8, 9, 12, 15, 16}, 18);
    };
    Engine plain(transformer, {});
    const auto right = submit_and_wait(plain, request);
    plain.abort();
    for (const EngineOptions& options : all_drafts()) {
      Engine engine(transformer, options);
      const auto found = submit_and_wait(engine, request);
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(found->answer(i).tokens, right->answer(i).tokens);
        EXPECT_EQ(found->answer(i).reason, FinishReason::kStop);
        EXPECT_EQ(found->answer(i).stop_token, std::optional<TokenId>(18));
      }
      if (options.draft.model != &transformer) continue;
      const Statistics now = engine.statistics();
      EXPECT_GT(now.accepted_tokens, 0);
      EXPECT_EQ(now.accepted_tokens, now.proposed_tokens);
    }
  }
}

TEST_P(EngineSpeculation, AnAnswerEndsWhereItsListenerSaysSo) {
  EngineOptions options;
  options.draft.model = &transformer;
  Engine engine(transformer, options);
  for (int64_t most = 1; most < 12; ++most) {
    Request request;
    request.prompt = {5, 6, 7};
    request.max_new_tokens = 100;
    const auto recorder = std::make_shared<Recorder>();
    int64_t seen = 0;
    recorder->on_each = [&](int64_t, TokenId) { return ++seen < most; };
    ASSERT_FALSE(engine.submit(request, recorder).refusal);
    recorder->wait();
    EXPECT_EQ(std::ssize(recorder->answer().tokens), most);
    EXPECT_EQ(recorder->answer().reason, FinishReason::kStop);
  }
  expect_no_block_in_use(engine);
}

// The draft shares the prefix of earlier requests, so that it reads a long prompt only once.
TEST_P(EngineSpeculation, TheDraftReadsACommonPrefixOnce) {
  SteppedBackend stepped(model::make_backend(GetParam()));
  const model::Transformer draft = make_model(long_config(600), stepped);
  EngineOptions options;
  options.draft.model = &draft;
  Engine engine(transformer, options);
  const auto rows = [&] {
    int64_t sum = 0;
    for (const int64_t tokens : stepped.tokens_of_steps()) sum += tokens;
    return sum;
  };
  Request request;
  request.prompt = model::random_tokens(290, kVocabulary, 4);
  request.max_new_tokens = 30;
  submit_and_wait(engine, request);
  const int64_t first = rows();
  EXPECT_GE(first, 290);
  request.prompt.back() = (request.prompt.back() + 1) % kVocabulary;
  submit_and_wait(engine, request);
  EXPECT_LT(rows() - first, 100);
}

class ShortOfMemory : public ops::ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  Status prepare(int64_t tokens) const override {
    if (++calls_ > 5) throw std::bad_alloc();
    return inner().prepare(tokens);
  }

 private:
  mutable std::atomic<int> calls_ = 0;
};

TEST_P(EngineSpeculation, GoesOnWithoutADraftThatFailsAndSaysSoOnce) {
  auto tensors = model::random_tensors(long_config(600), 77);
  tensors.at("lm_head.weight").values[5] = std::numeric_limits<float>::quiet_NaN();
  const model::Transformer broken = load_tiny(long_config(600), tensors, timeless).value();
  const ShortOfMemory failing(*backend);
  const model::Transformer short_of_memory = make_model(long_config(600), failing);
  const std::vector<Request> requests = mixed_requests();
  const auto expected = expected_answers(transformer, requests);
  for (const model::Transformer* const draft : {&broken, &short_of_memory}) {
    std::atomic<int> failures = 0;
    std::string reason;
    EngineOptions options;
    options.draft.model = draft;
    options.draft.on_failure = [&](const std::string& message) {
      ++failures;
      reason = message;
    };
    Engine engine(transformer, options);
    for (int i = 0; i < 3; ++i) {
      const auto recorders = submit_all(engine, requests);
      for (size_t k = 0; k < requests.size(); ++k)
        expect_answer(recorders[k]->answer(), expected[k]);
    }
    expect_no_block_in_use(engine);
    engine.abort();
    EXPECT_EQ(failures, 1);
    EXPECT_NE(reason.find(draft == &broken ? "expected finite logits" : "bad_alloc"),
              std::string::npos)
        << reason;
  }
}

TEST_P(EngineSpeculation, BothCachesFitIntoTheMemory) {
  EngineOptions options;
  options.draft.model = &other;
  EXPECT_EQ(kv_block_bytes(transformer, options), 2 * block_bytes(transformer));
  options.kv_cache_bytes = 8 * block_bytes(transformer);
  EXPECT_EQ(sequence_capacity(transformer, options).kv_cache, 4 * ops::kKvBlock);
  EngineOptions plain = options;
  plain.draft.model = nullptr;
  EXPECT_EQ(sequence_capacity(transformer, plain).kv_cache, 8 * ops::kKvBlock);
  EXPECT_GT(step_memory_bytes(transformer, options), step_memory_bytes(transformer, plain));
}

}  // namespace
}  // namespace neuronmm::serve
