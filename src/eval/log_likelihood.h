#pragma once
// Computes the log-likelihoods of all choices of all items. The common beginning of an item's
// choices is computed once, and several items go through the model together. Neither changes a
// choice's value.

#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "eval/encoded_request.h"
#include "model/transformer.h"

namespace neuronmm::eval {

// The values of all choices, and the work that they took.
struct LogLikelihoods {
  std::vector<std::vector<double>> items;  // [item][choice]: the sum over the choice's tokens
  int64_t tokens = 0;  // tokens that the requests read, counted for each request separately
  int64_t computed_tokens = 0;  // tokens that the model computed
  double seconds = 0.0;         // on the backend's clock
};

// Scores all items. Errors: ids outside the vocabulary, a likelihood that is NaN or infinite (with
// its item, counted from 1), an interrupt (with the number of items that were done).
Result<LogLikelihoods> log_likelihoods(const model::Transformer& transformer,
                                       const std::vector<EncodedItem>& items, Progress& progress);

}  // namespace neuronmm::eval
