#pragma once
// Which tokens may come next, where an answer must have a shape (a JSON document of a schema).

#include <cstdint>
#include <span>

#include "text/token_id.h"

namespace neuronmm::model {

// Of one sequence; it moves on with every token of the answer.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  // Sets bit (id % 64) of word (id / 64) of every token that may come next, and clears all others.
  // `allowed` has room for the whole vocabulary. A token that ends the sequence is allowed where
  // what was generated so far is complete. At least one token is allowed.
  virtual void allowed_tokens(std::span<uint64_t> allowed) = 0;
  // `token` was generated; it was allowed.
  virtual void advance(text::TokenId token) = 0;
  // Nothing may follow but the end: the answer is complete and cannot go on.
  virtual bool must_end() const = 0;
};

}  // namespace neuronmm::model
