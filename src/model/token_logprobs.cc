#include "model/token_logprobs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace neuronmm::model {

TokenLogprobs token_logprobs(std::span<const float> logits, text::TokenId chosen, int64_t count) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  const auto logprob_of = [&, log_sum = std::log(sum)](text::TokenId id) {
    return TokenLogprob{id, logits[static_cast<size_t>(id)] - largest - log_sum};
  };
  std::vector<text::TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto last = ids.begin() + std::min(count, std::ssize(ids));
  std::partial_sort(ids.begin(), last, ids.end(), [&](text::TokenId a, text::TokenId b) {
    const float left = logits[static_cast<size_t>(a)], right = logits[static_cast<size_t>(b)];
    return left != right ? left > right : a < b;
  });
  TokenLogprobs result = {logprob_of(chosen), {}};
  std::transform(ids.begin(), last, std::back_inserter(result.top), logprob_of);
  return result;
}

}  // namespace neuronmm::model
