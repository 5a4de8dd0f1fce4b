#pragma once
// Names the logits of a row that a caller will look at. Choosing the next token needs only a few
// logits of a vocabulary of a hundred thousand. If several processes have the columns of a row,
// they send only the wanted logits (tensor_parallel/excerpt.h).

#include <cstdint>
#include <limits>
#include <vector>

namespace neuronmm::ops {

// The wanted logits of one row.
struct WantedLogits {
  bool all = true;                  // every logit; `named` and `num_best` are then not looked at
  std::vector<int32_t> named = {};  // the ids of wanted tokens, ascending, without repetitions
  // The number of largest logits that are wanted in addition to the named ones. Of equal logits
  // those with smaller ids come first.
  int64_t num_best = 0;
  bool log_sum = false;  // also the row's log sum, which gives probabilities (ops/log_sum.h)
};

// The value of a logit that was not wanted. No finite logit is smaller.
inline constexpr float kUnwantedLogit = std::numeric_limits<float>::lowest();

// Returns the wish for all logits that a or b wants.
WantedLogits union_of(const WantedLogits& a, const WantedLogits& b);

}  // namespace neuronmm::ops
