// This test compares log-likelihoods with an independent fp64 transformer that runs every request
// whole, and accuracies with their definitions.

#include "eval/log_likelihood.h"

#include <cmath>
#include <limits>
#include <random>

#include "eval/eval_test.h"
#include "eval/multiple_choice.h"
#include "model/naive_transformer.h"

namespace neuronmm::eval {
namespace {

class LogLikelihood : public EvalTest {
 protected:
  // Returns an item with `choices` requests that share their first `shared` tokens. Targets may
  // begin among the shared tokens.
  EncodedItem random_item(std::mt19937_64& random, int64_t choices, int64_t shared,
                          int64_t longest_rest) const {
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
    const auto token = [&] { return static_cast<TokenId>(below(config_.vocab_size)); };
    std::vector<TokenId> context(shared);
    for (TokenId& id : context) id = token();
    EncodedItem item;
    for (int64_t choice = 0; choice < choices; ++choice) {
      std::vector<TokenId> whole = context;
      const int64_t rest = 1 + below(longest_rest);
      for (int64_t i = 0; i < rest; ++i) whole.push_back(token());
      const int64_t scored = 1 + below(std::min(rest + 2, std::ssize(whole) - 1));
      item.requests.push_back(
          {{whole.begin(), whole.end() - 1}, {whole.end() - scored, whole.end()}, false});
    }
    return item;
  }

  double naive(const model::TestTensors& tensors, const EncodedRequest& request) const {
    const auto logits = model::naive_logits(config_, tensors, request.inputs);
    double total = 0.0;
    for (size_t j = 0; j < request.targets.size(); ++j) {
      const auto& row = logits[request.first_prediction() + j];
      double sum = 0.0;
      for (const auto logit : row) sum += std::exp(static_cast<double>(logit));
      total += static_cast<double>(row[request.targets[j]]) - std::log(sum);
    }
    return total;
  }

  void expect_naive(const std::vector<EncodedItem>& items, uint64_t seed) {
    const model::TestTensors tensors = model::random_tensors(config_, seed);
    const auto result = value_of(log_likelihoods(load(tensors), items, silent_));
    ASSERT_EQ(result.items.size(), items.size());
    for (size_t i = 0; i < items.size(); ++i) {
      ASSERT_EQ(result.items[i].size(), items[i].requests.size());
      for (size_t c = 0; c < items[i].requests.size(); ++c) {
        EXPECT_NEAR(result.items[i][c], naive(tensors, items[i].requests[c]), 1e-4)
            << "item " << i << " choice " << c;
      }
    }
  }
};

TEST_F(LogLikelihood, AgreesWithWholeSequencesInFp64) {
  config_.num_hidden_layers = 2;
  config_.layers.resize(static_cast<size_t>(config_.num_hidden_layers));
  std::mt19937_64 random(1);
  std::vector<EncodedItem> items;
  for (int i = 0; i < 40; ++i) {  // more than one group
    const auto choices = 2 + static_cast<int64_t>(random() % 4);
    items.push_back(random_item(random, choices, 1 + static_cast<int64_t>(random() % 30), 12));
  }
  // Choices of one token each.
  items.push_back({{{{1, 2, 3}, {4}, false}, {{1, 2, 3}, {5}, false}}});
  // Choices that share nothing.
  items.push_back({{{{1, 2, 3}, {3, 5}, true}, {{2, 3, 6}, {5}, true}}});
  items.push_back(
      // The input of the second choice is the start of the first one's.
      {{{{1, 2, 3}, {3, 4}, false}, {{1, 2}, {4, 4}, false}}});
  expect_naive(items, 2);
}

// A choice takes several passes, and passes end inside a choice.
TEST_F(LogLikelihood, LongContinuationsAreScoredInSeveralPasses) {
  config_.max_position_embeddings = 1200;
  std::mt19937_64 random(3);
  std::vector<EncodedItem> items;
  for (const int64_t rest : {1100, 300, 400, 5}) items.push_back(random_item(random, 2, 9, rest));
  expect_naive(items, 4);
}

TEST_F(LogLikelihood, SharedTokensAreComputedOnce) {
  const model::Transformer transformer = random_model(5);
  const std::vector<EncodedItem> items = {{{{{1, 2, 3, 4}, {4, 5}, false},
                                            {{1, 2, 3, 6, 7}, {6, 7, 8}, false},
                                            {{1, 2, 3}, {9}, false}}}};
  const auto result = value_of(log_likelihoods(transformer, items, silent_));
  EXPECT_EQ(result.tokens, 4 + 5 + 3);
  EXPECT_EQ(result.computed_tokens, 3 + 1 + 2);
}

TEST_F(LogLikelihood, TheTimeIsThatOfTheBackendsClock) {
  backend_.seconds = 5.0;
  backend_.on_attention = [this] { *backend_.seconds += 0.5; };
  const EncodedItem item = {{{{1, 2, 3}, {4}, false}, {{1, 2, 3}, {5}, false}}};
  EXPECT_EQ(value_of(log_likelihoods(random_model(12), {item}, silent_)).seconds, 0.5);
}

TEST_F(LogLikelihood, ValuesDoNotDependOnOtherItems) {
  std::mt19937_64 random(6);
  std::vector<EncodedItem> items;
  for (int i = 0; i < 20; ++i) items.push_back(random_item(random, 3, 10, 10));
  const model::Transformer transformer = random_model(7);
  const auto together = value_of(log_likelihoods(transformer, items, silent_));
  for (size_t i = 0; i < items.size(); ++i) {
    EXPECT_EQ(value_of(log_likelihoods(transformer, {items[i]}, silent_)).items[0],
              together.items[i]);
  }
}

TEST_F(LogLikelihood, RefusesInputThatCannotBeScored) {
  const EncodedItem good = {{{{1, 2, 3}, {4}, false}, {{1, 2, 3}, {5}, false}}};
  EncodedItem bad = good;
  bad.requests[1].targets[0] = 19;
  EXPECT_TRUE(has(message_of(log_likelihoods(random_model(8), {good, bad}, silent_)),
                  "item 2: expected token ids in [0, 19)"));
  model::TestTensors tensors = model::random_tensors(config_, 9);
  tensors["model.embed_tokens.weight"].values[18 * config_.hidden_size] =
      std::numeric_limits<float>::quiet_NaN();
  bad = good;
  bad.requests[1].inputs[2] = 18;
  EXPECT_EQ(message_of(log_likelihoods(load(tensors), {good, bad}, silent_)),
            "item 2 has a log-likelihood that is not finite: nan");
}

TEST_F(LogLikelihood, AnInterruptReportsFinishedItems) {
  std::mt19937_64 random(10);
  std::vector<EncodedItem> items;
  for (int i = 0; i < 40; ++i) items.push_back(random_item(random, 2, 5, 5));
  backend_.on_attention = [] { set_interrupted(true); };
  const auto result = log_likelihoods(random_model(11), items, silent_);
  EXPECT_EQ(message_of(result), "interrupted: 16 of 40 items done");
  EXPECT_EQ(result.error().kind, Error::Kind::kInterrupted);
}

TEST(MultipleChoice, StandardErrorsMatchTheDefinition) {
  // The expected values are the mean and the sample standard deviation / sqrt(n) of 1, 0, 0 and 1.
  const Accuracy four = accuracy({true, false, false, true});
  EXPECT_DOUBLE_EQ(four.value, 0.5);
  EXPECT_DOUBLE_EQ(four.standard_error, std::sqrt((4 * 0.25) / 3) / 2);
  EXPECT_TRUE(std::isnan(accuracy({true}).standard_error));
  EXPECT_EQ(accuracy({true, true}).standard_error, 0.0);
}

TEST(MultipleChoice, AccNormDividesByLengthAndTheFirstOfEqualsWins) {
  TaskItem item;
  item.requests.resize(3);
  item.choice_lengths = {1, 4, 2};
  item.gold = 1;
  const auto score = score_choices({item}, {{-3.0, -6.0, -3.0}});  // per code point -3, -1.5, -1.5
  EXPECT_EQ(score.acc.value, 0.0);
  EXPECT_EQ(score.acc_norm->value, 1.0);
  item.choice_lengths.clear();
  item.gold = 0;
  const auto blank = score_choices({item}, {{-3.0, -6.0, -3.0}});
  EXPECT_EQ(blank.acc.value, 1.0);
  EXPECT_FALSE(blank.acc_norm.has_value());
}

}  // namespace
}  // namespace neuronmm::eval
