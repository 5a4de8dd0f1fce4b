// This test checks the parts of speculative decoding by themselves: lookups, chances and prices of
// proposals, the rows that a sequence is extended by, the draft's cache, and the checks of a draft.

#include "model/speculation.h"

#include <algorithm>
#include <fstream>

#include <gtest/gtest.h>

#include "model/backends.h"
#include "model/draft_check.h"
#include "model/draft_model.h"
#include "model/drafting.h"
#include "model/ngram_draft.h"
#include "model/tiny_model.h"
#include "test_data.h"

namespace neuronmm::model {
namespace {

using Tokens = std::vector<TokenId>;

constexpr PriorChances kEven = {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5};
constexpr DraftPrices kFree = {};

// Returns the place that agrees with the end of the text in most tokens, by comparing all places.
TextMatch slow_match(const Tokens& tokens) {
  TextMatch best;
  for (size_t next = 1; next < tokens.size(); ++next) {
    int64_t length = 0;
    for (size_t i = 1; i <= next && tokens[next - i] == tokens[tokens.size() - i]; ++i) ++length;
    length = std::min(length, kLongestMatch);
    if (length >= kLeastMatch && length >= best.length) best = {next, length};
  }
  return best;
}

TEST(NgramLookup, FindsTheLatestOfTheLongestMatches) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    for (const int64_t vocabulary : {2, 3, 5}) {
      const Tokens tokens = random_tokens(static_cast<int64_t>(seed % 40), vocabulary, seed);
      const TextMatch found = find_match(tokens), right = slow_match(tokens);
      EXPECT_EQ(found.length, right.length) << seed;
      EXPECT_EQ(found.next, right.next) << seed;
    }
  }
}

// Returns what the lookup proposes after a text.
DraftTask looked_up(const Continuation& text, int64_t most, const DraftPrices& prices = kFree) {
  NgramDraft draft(100);
  const auto state = draft.begin("");
  std::vector<DraftTask> tasks = {{&text, state.get(), most}};
  EXPECT_TRUE(draft.propose(tasks, prices).ok());
  tasks[0].state = nullptr;
  return tasks[0];
}

Tokens tokens_of(const DraftTask& task) {
  Tokens tokens;
  for (const Proposal& proposal : task.proposals) tokens.push_back(proposal.token);
  return tokens;
}

TEST(NgramLookup, ProposesWhatFollowedBefore) {
  const Continuation text({1, 2, 3, 4, 5, 9, 1, 2, 3}, {.max_new_tokens = 20}, 20);
  const DraftTask task = looked_up(text, 4);
  EXPECT_EQ(tokens_of(task), (Tokens{4, 5, 9, 1}));
  EXPECT_EQ(task.wanted.size(), 5u);
  // A match of three tokens, of four, ...
  EXPECT_EQ(task.proposals[0].grade, 1u);
  EXPECT_EQ(task.proposals[3].grade, 4u);
  EXPECT_TRUE(looked_up(Continuation({1, 2, 3, 4}, {}, 20), 4).proposals.empty());
}

TEST(NgramLookup, GoesOnWithARepetition) {
  const Continuation text({7, 8, 9, 8, 9}, {.max_new_tokens = 20}, 20);
  EXPECT_EQ(tokens_of(looked_up(text, 5)), (Tokens{8, 9, 8, 9, 8}));
}

TEST(NgramLookup, EndsBeforeAStopTokenAndWhereItDoesNotPay) {
  const Tokens prompt = {1, 2, 3, 4, 5, 9, 1, 2, 3};
  const Continuation text(prompt, {.max_new_tokens = 20, .stop_tokens = {5}}, 20);
  EXPECT_EQ(tokens_of(looked_up(text, 4)), (Tokens{4}));
  EXPECT_EQ(looked_up(Continuation(prompt, {}, 20), 4, {.check = 0.25}).proposals.size(), 1u);
  EXPECT_TRUE(looked_up(Continuation(prompt, {}, 20), 4, {.check = 0.35}).proposals.empty());
}

// Allows token t + 1 after token t, and the end after token 6.
class Counting : public TokenConstraint {
 public:
  explicit Counting(TokenId next) : next_(next) {}
  void allowed_tokens(std::span<uint64_t> allowed) override {
    std::ranges::fill(allowed, 0);
    allowed[0] = uint64_t{1} << next_;
  }
  void advance(TokenId token) override { next_ = token + 1; }
  bool must_end() const override { return next_ > 6; }
  std::unique_ptr<TokenConstraint> clone() const override {
    return std::make_unique<Counting>(next_);
  }

 private:
  TokenId next_;
};

TEST(NgramLookup, EndsWhereTheConstraintForbidsIt) {
  const auto after = [](Tokens prompt, TokenId next) {
    const Continuation text(std::move(prompt), {.max_new_tokens = 20}, 20,
                            std::make_unique<Counting>(next));
    return tokens_of(looked_up(text, 6));
  };
  EXPECT_EQ(after({1, 2, 3, 4, 9, 1, 2}, 3), (Tokens{3, 4}));
  EXPECT_EQ(after({1, 2, 3, 4, 5, 6, 7, 1, 2}, 3), (Tokens{3, 4, 5, 6}));
  EXPECT_EQ(after({1, 2, 3, 4, 9, 1, 2}, 5), Tokens());
}

TEST(ProposalOddsTest, FollowWhatWasAccepted) {
  ProposalOdds odds(kEven);
  const std::vector<Proposal> proposals = {{1, 2}, {1, 5}, {1, 7}};
  for (int i = 0; i < 200; ++i) odds.record(proposals, 1);
  EXPECT_GT(odds.chance(2), 0.99);  // always accepted
  EXPECT_LT(odds.chance(5), 0.01);  // always rejected
  EXPECT_EQ(odds.chance(7), 0.5);   // never checked
  EXPECT_NEAR(odds.mean_chance(), 0.5, 0.1);
}

TEST(ProposalOddsTest, AUselessDraftIsTriedLessAndLessOften) {
  ProposalOdds odds(kEven);
  int64_t proposed = 0, trials = 0, longest_pause = 0, pause = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto allowance = odds.next(0.4, kMostProposals);
    longest_pause = std::max(longest_pause, ++pause);
    if (allowance.most == 0) continue;
    pause = 0;
    trials += allowance.trial ? 1 : 0;
    proposed += allowance.most;
    const std::vector<Proposal> proposals(static_cast<size_t>(allowance.most));
    odds.record(proposals, 0);
  }
  EXPECT_EQ(longest_pause, ProposalOdds::kLongestPause + 1);
  EXPECT_GE(trials, 10);
  EXPECT_LE(trials, 20);
  EXPECT_LE(proposed, 200);
}

TEST(ProposalOddsTest, ADraftThatBecomesGoodIsUsedAgain) {
  ProposalOdds odds(kEven);
  for (int i = 0; i < 100; ++i) odds.record(std::vector<Proposal>(1), 0);
  int64_t steps = 0;
  while (odds.mean_chance() <= 0.5 && steps < 2000) {
    ++steps;
    const auto allowance = odds.next(0.5, kMostProposals);
    odds.record(std::vector<Proposal>(static_cast<size_t>(allowance.most)), allowance.most);
  }
  EXPECT_LT(steps, 200);
  EXPECT_EQ(odds.next(0.5, 6).most, 6);
  EXPECT_EQ(odds.next(0.5, 0).most, 0);
}

TEST(ProposalOddsTest, TheFirstTrialComesLaterForMoreSequences) {
  for (const int64_t sequences : {1, 8}) {
    ProposalOdds odds(kEven);
    for (int64_t i = 0; i < ProposalOdds::kFirstPause * sequences; ++i)
      EXPECT_EQ(odds.next(1.0, 6, sequences).most, 0);
    EXPECT_TRUE(odds.next(1.0, 6, sequences).trial);
  }
}

// A step of r rows takes 0.1 + 0.01 r seconds.
double seconds_of(int64_t rows) { return 0.1 + 0.01 * static_cast<double>(rows); }

TEST(PassTimesTest, AreOnALine) {
  PassTimes times;
  EXPECT_TRUE(times.empty());
  times.record(4, seconds_of(4));
  EXPECT_DOUBLE_EQ(times.seconds(4), seconds_of(4));
  EXPECT_DOUBLE_EQ(times.row_seconds(), PassTimes::kFirstRowShare * seconds_of(4));
  for (int i = 0; i < 100; ++i) times.record(i % 8, seconds_of(i % 8));
  EXPECT_NEAR(times.row_seconds(), 0.01, 1e-9);
  EXPECT_NEAR(times.seconds(40), seconds_of(40), 1e-9);
}

// Every third row of one sequence gives a token.
TEST(StepPricesTest, AreThoseOfTheSteps) {
  StepPrices prices;
  EXPECT_EQ(prices.prices(1, std::nullopt).draft, StepPrices::kFirstDraftPrice);
  EXPECT_EQ(prices.prices(1, 0.0).draft, 0.0);
  for (int i = 0; i < 100; ++i) {
    const int64_t rows = i % 2 == 0 ? 3 : 9;
    prices.record({rows, 1, rows / 3, seconds_of(rows), 0.05});
  }
  // Both kinds of steps together make 4 tokens in 0.42 s.
  const DraftPrices found = prices.prices(1, 0.02);
  EXPECT_NEAR(found.check, 0.01 * 4 / 0.42, 0.01);
  EXPECT_NEAR(found.draft, 0.02 * 4 / 0.42, 0.01);
}

// Eight sequences write eight tokens in 0.18 s, and one would write one in 0.11 s.
TEST(StepPricesTest, FallWithTheNumberOfSequences) {
  StepPrices prices;
  for (int i = 0; i < 100; ++i) {
    const int64_t rows = i % 2 == 0 ? 8 : 7;
    prices.record({rows, rows, rows, seconds_of(rows), 0.0});
  }
  const double at_eight = prices.prices(8, 0.02).draft;
  EXPECT_NEAR(at_eight, 0.02 * 8 / 0.18, 0.02);
  EXPECT_LT(prices.prices(1, 0.02).draft, at_eight / 4);
}

// Rows of logits in which one token is the likeliest.
Predictions rows_of(const Tokens& tokens) {
  Predictions predictions{Matrix(std::ssize(tokens), 12)};
  for (size_t i = 0; i < tokens.size(); ++i) {
    float* const row = predictions.logits.row(static_cast<int64_t>(i));
    std::fill(row, row + 12, 0.0f);
    row[tokens[i]] = 5.0f;
  }
  return predictions;
}

std::vector<Proposal> proposals_of(const Tokens& tokens) {
  std::vector<Proposal> proposals;
  for (const TokenId token : tokens) proposals.push_back({token, 0});
  return proposals;
}

TEST(ExtendTest, AcceptsProposalsUpToTheFirstThatDiffers) {
  struct Case {
    Tokens rows, proposals, made;
    int64_t accepted;
  };
  for (const Case& one :
       {Case{{3, 4, 5, 6}, {3, 4, 5}, {3, 4, 5, 6}, 3}, Case{{3, 4, 5, 6}, {3, 9, 5}, {3, 4}, 1},
        Case{{3, 4, 5, 6}, {9, 4, 5}, {3}, 0}, Case{{3}, {}, {3}, 0},
        Case{{3, 11, 5, 6}, {3, 11, 5}, {3}, 1}}) {  // 11 is a stop token
    Continuation text({1}, {.max_new_tokens = 20, .stop_tokens = {11}}, 20);
    const Extension extension = extend(text, rows_of(one.rows), 0, proposals_of(one.proposals));
    EXPECT_EQ(Tokens(text.generated().begin(), text.generated().end()), one.made);
    EXPECT_EQ(extension.accepted, one.accepted);
  }
}

TEST(ExtendTest, EndsAtTheLimitAndAtLogitsThatAreNotFinite) {
  Continuation text({1}, {.max_new_tokens = 2}, 20);
  Extension extension = extend(text, rows_of({3, 4, 5, 6}), 0, proposals_of({3, 4, 5}));
  ASSERT_EQ(extension.steps.size(), 2u);
  EXPECT_EQ(extension.steps[1]->stop, Stop::kLimit);
  EXPECT_EQ(extension.accepted, 2);

  Continuation broken({1}, {.max_new_tokens = 20}, 20);
  Predictions predictions = rows_of({3, 4, 5});
  predictions.logits.row(1)[2] = std::numeric_limits<float>::quiet_NaN();
  extension = extend(broken, predictions, 0, proposals_of({3, 4}));
  ASSERT_EQ(extension.steps.size(), 2u);
  EXPECT_FALSE(extension.steps[1].ok());
  EXPECT_EQ(extension.accepted, 1);
}

class DraftModelTest : public OnBackend {
 protected:
  TimelessBackend timeless{*backend};
  io::ModelConfig config = tiny_config(io::Architecture::kLlama);
  Transformer transformer = load_tiny(config, random_tensors(config, 77), timeless).value();

  // Returns the greedy tokens after a text, each by a pass over the whole text.
  Tokens greedy(Tokens tokens, int64_t count) {
    const size_t begin = tokens.size();
    for (int64_t i = 0; i < count; ++i) {
      const Matrix logits = all_logits(transformer, tokens);
      const float* last = logits.row(logits.rows() - 1);
      tokens.push_back(
          static_cast<TokenId>(std::max_element(last, last + logits.columns()) - last));
    }
    return {tokens.begin() + static_cast<std::ptrdiff_t>(begin), tokens.end()};
  }
};
NMM_ON_ALL_BACKENDS(DraftModelTest);

TEST_P(DraftModelTest, ProposesItsOwnTokensWhateverWasAccepted) {
  DraftModel draft(transformer, make_draft_caches(transformer), config.vocab_size, 512);
  const auto state = draft.begin("");
  Continuation text({3, 1, 4, 1, 5}, {.max_new_tokens = 40}, 40);
  ASSERT_TRUE(text.follow(2, 19));
  const Tokens accepted_counts = {0, 3, 1, 0, 2, 3};
  for (const TokenId accepted : accepted_counts) {
    std::vector<DraftTask> tasks = {{&text, state.get(), 3}};
    ASSERT_TRUE(draft.propose(tasks, kFree).ok());
    const Tokens now(text.tokens().begin(), text.tokens().end());
    EXPECT_EQ(tokens_of(tasks[0]), greedy(now, 3));
    for (TokenId i = 0; i < accepted; ++i)
      ASSERT_TRUE(text.follow(tasks[0].proposals[static_cast<size_t>(i)].token, 19));
    ASSERT_TRUE(text.follow((text.tokens().back() + 7) % 19, 19));
  }
}

TEST_P(DraftModelTest, ReadsALongTextInChunksOnceTheAnswerIsLongEnough) {
  DraftModel draft(transformer, make_draft_caches(transformer), config.vocab_size, 20);
  const auto state = draft.begin("");
  Continuation text(random_tokens(59, config.vocab_size, 3), {.max_new_tokens = 40}, 40);
  const auto proposals = [&] {
    std::vector<DraftTask> tasks = {{&text, state.get(), 3}};
    EXPECT_TRUE(draft.propose(tasks, kFree).ok());
    return tokens_of(tasks[0]);
  };
  ASSERT_TRUE(text.follow(2, 19));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(proposals(), Tokens());  // 60 tokens for an answer of one
  ASSERT_TRUE(text.follow(3, 19));
  EXPECT_EQ(proposals(), Tokens());
  EXPECT_EQ(proposals(), Tokens());
  EXPECT_EQ(proposals(), Tokens());
  EXPECT_EQ(proposals(), greedy({text.tokens().begin(), text.tokens().end()}, 3));
}

TEST_P(DraftModelTest, ProposesNothingBehindItsContext) {
  config.max_position_embeddings = 10;
  const Transformer small = load_tiny(config, random_tensors(config, 77), timeless).value();
  DraftModel draft(small, make_draft_caches(small), config.vocab_size, 512);
  const auto state = draft.begin("");
  Continuation text(random_tokens(7, config.vocab_size, 3), {.max_new_tokens = 40}, 40);
  for (const size_t expected : {3, 2, 1, 0, 0}) {
    ASSERT_TRUE(text.follow(2, 19));
    std::vector<DraftTask> tasks = {{&text, state.get(), 5}};
    ASSERT_TRUE(draft.propose(tasks, kFree).ok());
    EXPECT_EQ(tasks[0].proposals.size(), expected);
  }
}

// The vocabulary of one model is padded, that of the other is not.
TEST_P(DraftModelTest, MayHaveAVocabularyOfAnotherSize) {
  for (const int64_t vocabulary : {17, 25}) {
    DraftModel draft(transformer, make_draft_caches(transformer), vocabulary, 512);
    const auto state = draft.begin("");
    Continuation text({3, 1, 4, 1, 5}, {.max_new_tokens = 40}, 40);
    for (int i = 0; i < 8; ++i) {
      ASSERT_TRUE(text.follow(i + 1, 17));
      std::vector<DraftTask> tasks = {{&text, state.get(), 3}};
      ASSERT_TRUE(draft.propose(tasks, kFree).ok());
      for (const TokenId token : tokens_of(tasks[0]))
        EXPECT_LT(token, std::min<int64_t>(vocabulary, 19));
    }
    ASSERT_TRUE(text.follow(20, 25));  // an id that the draft does not have
    std::vector<DraftTask> tasks = {{&text, state.get(), 3}};
    ASSERT_TRUE(draft.propose(tasks, kFree).ok());
    EXPECT_TRUE(tasks[0].proposals.empty());
  }
}

TEST_P(DraftModelTest, LogitsThatAreNotFiniteAreAnError) {
  TestTensors tensors = random_tensors(config, 77);
  tensors.at("lm_head.weight").values[5] = std::numeric_limits<float>::quiet_NaN();
  const Transformer broken = load_tiny(config, tensors, timeless).value();
  Speculation speculation(
      std::make_unique<DraftModel>(broken, make_draft_caches(broken), config.vocab_size, 512),
      timeless);
  auto state = speculation.begin();
  Continuation text({3, 1}, {.max_new_tokens = 40}, 40);
  ASSERT_TRUE(text.follow(2, 19));
  std::vector<DraftTask> tasks = {{&text, state.get(), 3}};
  speculation.propose(tasks);
  ASSERT_TRUE(speculation.failure());
  EXPECT_NE(speculation.failure()->find("expected finite logits"), std::string::npos);
  EXPECT_TRUE(tasks[0].proposals.empty());
  EXPECT_EQ(speculation.begin(), nullptr);
}

text::Tokenizer tokenizer_with(const std::string& last_token) {
  const std::string json = R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, ")" + last_token +
                           R"(": 2}, "merges": []}})";
  return text::Tokenizer::parse(json, "test").value();
}

TEST(DraftCheck, NamesTheFirstTokenThatDiffers) {
  const auto model = tokenizer_with("c"), same = tokenizer_with("c"), other = tokenizer_with("d");
  EXPECT_TRUE(check_same_tokens(model, "big", same, "small").ok());
  const Status refused = check_same_tokens(model, "big", other, "small");
  ASSERT_FALSE(refused.ok());
  const std::string& message = refused.error().message;
  for (const char* const part : {"small: ", "tokens of big", "token 2", "c\"", "d\""})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(DraftCheck, RefusesADraftWithMoreBytes) {
  const auto backend = ops::make_reference_backend();
  io::ModelConfig config = tiny_config(io::Architecture::kLlama);
  const Transformer small = load_tiny(config, random_tensors(config, 1), *backend).value();
  config.num_hidden_layers = 3;
  config.layers.resize(3);
  const Transformer large = load_tiny(config, random_tensors(config, 1), *backend).value();
  EXPECT_TRUE(check_not_larger(large.checkpoint(), small.checkpoint()).ok());
  EXPECT_TRUE(check_not_larger(small.checkpoint(), small.checkpoint()).ok());
  const Status refused = check_not_larger(small.checkpoint(), large.checkpoint());
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("bytes"), std::string::npos);
}

}  // namespace
}  // namespace neuronmm::model
