// This test checks the log-probabilities of tokens and the order of the most likely ones.

#include "model/token_logprobs.h"

#include <cmath>

#include <gtest/gtest.h>

namespace neuronmm::model {
namespace {

std::vector<text::TokenId> top_ids(const std::vector<float>& logits, int64_t count) {
  std::vector<text::TokenId> ids;
  for (const TokenLogprob& token : token_logprobs(logits, 0, count).top) ids.push_back(token.id);
  return ids;
}

TEST(TokenLogprobs, TheMostLikelyComeFirst) {
  using Ids = std::vector<text::TokenId>;
  EXPECT_EQ(top_ids({1, 5, 3, 4}, 3), (Ids{1, 3, 2}));
  EXPECT_EQ(top_ids({2, 2, 3, 2}, 3), (Ids{2, 0, 1}));
  EXPECT_EQ(top_ids({1, 2}, 0), Ids{});
  EXPECT_EQ(top_ids({1, 2}, 1000), (Ids{1, 0}));
}

// The first token has the probability 1/2, the others have 1/4. The exponentials of the second
// logits overflow.
TEST(TokenLogprobs, AreLogarithmsOfProbabilities) {
  const std::vector<float> logits = {std::log(2.0f), 0.0f, 0.0f};
  EXPECT_NEAR(token_logprobs(logits, 0, 0).chosen.logprob, std::log(0.5), 1e-7);
  EXPECT_NEAR(token_logprobs(logits, 2, 0).chosen.logprob, std::log(0.25), 1e-7);
  const std::vector<float> huge = {3e38f, 3e38f, -3e38f};
  EXPECT_NEAR(token_logprobs(huge, 0, 0).chosen.logprob, std::log(0.5), 1e-12);
}

}  // namespace
}  // namespace neuronmm::model
