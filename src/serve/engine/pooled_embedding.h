#pragma once
// The embedding of a prompt: one vector that the scheduler makes of the prompt's hidden states. A
// prompt may be computed in several steps, and again from its beginning after a preemption.

#include <cstdint>
#include <vector>

#include "base/tensor.h"
#include "model/forward_pass.h"

namespace neuronmm::serve {

// How the hidden states of a prompt become one vector.
enum class Pooling {
  kMean,  // the mean over all tokens
  kLast,  // the last token's
};

// The embedding of one prompt while its steps are computed.
class PooledEmbedding {
 public:
  explicit PooledEmbedding(Pooling pooling) : pooling_(pooling) {}

  // Returns whether the hidden states of all tokens are needed. The keys and values of a cached
  // prefix do not suffice then.
  bool needs_every_token() const { return pooling_ == Pooling::kMean; }
  // Returns which hidden states are needed of a step, which may complete the prompt.
  model::HiddenStates wanted(bool completes_prompt) const;
  // Adds the hidden states that wanted() named. The first row is that of prompt token `position`.
  // Tokens that were added before are skipped.
  void add(int64_t position, ConstMatrixView rows);
  // Returns the embedding, which is not normalized.
  std::vector<float> value() const;

 private:
  const Pooling pooling_;
  std::vector<double> sum_;  // of the first tokens_ tokens, or the last token's values
  int64_t tokens_ = 0;
};

}  // namespace neuronmm::serve
