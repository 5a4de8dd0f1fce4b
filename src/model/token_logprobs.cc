#include "model/token_logprobs.h"

#include <algorithm>
#include <numeric>

namespace neuronmm::model {

TokenLogprobs token_logprobs(std::span<const float> logits, text::TokenId chosen, int64_t count,
                             const std::optional<ops::LogSum>& log_sum) {
  const ops::LogSum sum = log_sum ? *log_sum : ops::log_sum(logits);
  const auto logprob_of = [&](text::TokenId id) {
    return TokenLogprob{id, sum.log_probability(logits[static_cast<size_t>(id)])};
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

double log_probability(std::span<const float> logits, text::TokenId token,
                       const std::optional<ops::LogSum>& log_sum) {
  const ops::LogSum sum = log_sum ? *log_sum : ops::log_sum(logits);
  return sum.log_probability(logits[static_cast<size_t>(token)]);
}

}  // namespace neuronmm::model
