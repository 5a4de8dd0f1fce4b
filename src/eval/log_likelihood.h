#pragma once
// The log-likelihoods of all choices of all items. What the choices of an item have in common is
// computed once; several items go through the model together. Neither changes what a choice gets.

#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "eval/encoded_request.h"
#include "model/transformer.h"

namespace neuronmm::eval {

struct LogLikelihoods {
  std::vector<std::vector<double>> items;  // [item][choice]: the sum over its tokens
  int64_t tokens = 0;                      // that the requests read, each for itself
  int64_t computed_tokens = 0;             // that the model computed
  double seconds = 0.0;
};

// Errors: ids outside the vocabulary, a likelihood that is NaN or infinite (with its item, counted
// from 1), an interrupt (with the number of items that were done).
Result<LogLikelihoods> log_likelihoods(const model::Transformer& transformer,
                                       const std::vector<EncodedItem>& items, Progress& progress);

}  // namespace neuronmm::eval
