#pragma once
// What will be looked at of a row of logits. A vocabulary has a hundred thousand tokens, of which
// choosing the next one needs a few: where rows lie in several processes, only those are sent.

#include <cstdint>
#include <limits>
#include <vector>

namespace neuronmm::ops {

struct WantedLogits {
  bool all = true;                  // then what follows says nothing, but for log_sum
  std::vector<int32_t> named = {};  // of these tokens, ascending and each once
  int64_t best = 0;      // and the largest of all others; of equal ones those with smaller ids
  bool log_sum = false;  // and what makes them probabilities (ops/log_sum.h)
};

// What stands for a logit that was not wanted: no finite one is less likely.
inline constexpr float kUnwantedLogit = std::numeric_limits<float>::lowest();

// What serves both.
WantedLogits merged(const WantedLogits& a, const WantedLogits& b);

}  // namespace neuronmm::ops
