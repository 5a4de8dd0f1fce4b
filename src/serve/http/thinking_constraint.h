#pragma once
// Delays a token constraint until the model has finished its thoughts. Models that reason write
// "<think>...</think>" before their answer, and the output format of a request applies only to the
// text after that. StructuredOutputCompiler uses this file.

#include <memory>
#include <optional>

#include "model/token_constraint.h"
#include "serve/grammar/token_vocabulary.h"

namespace neuronmm::serve {

struct ThoughtTokens {
  // The tokens <think> and </think>, if the model has them.
  std::optional<text::TokenId> begin, end;
};

// Returns a constraint that allows free text up to the token </think>, then white space, then what
// `inner` allows. If `inside` is true, the prompt has already opened the thoughts. Otherwise the
// answer may begin with <think> or have no thoughts. If the model lacks one of the two tokens, the
// result is `inner` itself. `vocabulary` must outlive the result.
std::unique_ptr<model::TokenConstraint> constrain_after_thoughts(
    std::unique_ptr<model::TokenConstraint> inner, const grammar::TokenVocabulary& vocabulary,
    const ThoughtTokens& tokens, bool inside);

}  // namespace neuronmm::serve
