#pragma once
// An answer that may think aloud before it has a inner.

#include <memory>
#include <optional>

#include "model/token_constraint.h"
#include "serve/grammar/token_vocabulary.h"

namespace neuronmm::serve {

struct ThoughtTokens {
  std::optional<text::TokenId> begin, end;  // <think> and </think>; none where the model has none
};

// Free text up to the token </think>, then white space, then what `inner` allows. `inside`: the
// thoughts have begun; else they begin with <think>, or there are none. Without these two tokens
// there are no thoughts.
std::unique_ptr<model::TokenConstraint> after_thoughts(
    std::unique_ptr<model::TokenConstraint> inner, const grammar::TokenVocabulary& vocabulary,
    const ThoughtTokens& tokens, bool inside);

}  // namespace neuronmm::serve
