#include "model/logits_processors.h"

#include <algorithm>
#include <vector>

namespace neuronmm::model {
namespace {

bool has_logit(std::span<const double> logits, TokenId id) {
  return id >= 0 && static_cast<size_t>(id) < logits.size();
}

std::vector<TokenId> distinct_tokens(std::vector<TokenId> ids) {
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace

Status check_biases(std::span<const LogitBias> biases, int64_t vocab_size) {
  for (const LogitBias& bias : biases) {
    if (bias.id < 0 || bias.id >= vocab_size)
      return fail("the bias of token {}: expected an id from 0 to {}", bias.id, vocab_size - 1);
  }
  return {};
}

void add_biases(std::span<double> logits, std::span<const LogitBias> biases) {
  for (const LogitBias& bias : biases) {
    if (has_logit(logits, bias.id)) logits[static_cast<size_t>(bias.id)] += bias.bias;
  }
}

// The penalty has to make a logit smaller whatever its sign, so positive logits are divided and
// negative ones multiplied.
void penalise_repetition(std::span<double> logits, std::span<const TokenId> prompt,
                         std::span<const TokenId> generated, double penalty) {
  std::vector<TokenId> seen(prompt.begin(), prompt.end());
  seen.insert(seen.end(), generated.begin(), generated.end());
  for (const TokenId id : distinct_tokens(std::move(seen))) {
    if (!has_logit(logits, id)) continue;
    double& logit = logits[static_cast<size_t>(id)];
    logit = logit > 0.0 ? logit / penalty : logit * penalty;
  }
}

void penalise_frequency(std::span<double> logits, std::span<const TokenId> generated,
                        double penalty) {
  for (const TokenId id : generated) {
    if (has_logit(logits, id)) logits[static_cast<size_t>(id)] -= penalty;
  }
}

void penalise_presence(std::span<double> logits, std::span<const TokenId> generated,
                       double penalty) {
  penalise_frequency(logits, distinct_tokens({generated.begin(), generated.end()}), penalty);
}

}  // namespace neuronmm::model
