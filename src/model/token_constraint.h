#pragma once
// The interface of a rule that limits which tokens may come next, for answers that must follow a
// grammar (for example a JSON schema). The server's grammars implement it, and Continuation asks it
// before every token.

#include <cstdint>
#include <memory>
#include <span>

#include "text/tokenizer/token_id.h"

namespace neuronmm::model {

// The constraint of one sequence. Its state advances with every token of the answer.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  // Sets bit (id % 64) of word (id / 64) for every token that may come next, and clears all other
  // bits. `allowed` covers the whole vocabulary. A token that ends the sequence is allowed if the
  // answer so far is complete. At least one token is allowed.
  virtual void allowed_tokens(std::span<uint64_t> allowed) = 0;
  // Records that `token` was generated. It must be an allowed token.
  virtual void advance(text::TokenId token) = 0;
  // Returns whether the answer is complete and cannot go on.
  virtual bool must_end() const = 0;
  // Returns a copy that advances by itself. Speculative decoding tries proposals with it. If the
  // result is null, no tokens are proposed for this sequence.
  virtual std::unique_ptr<TokenConstraint> clone() const { return nullptr; }
};

}  // namespace neuronmm::model
