#pragma once
// Applies the rules for an answer's thoughts: a token constraint begins only after the thoughts
// have ended, and thoughts that have used up their budget of tokens are ended by force. Models
// write thoughts between two marks (serve/output/reasoning_tags.h), and the output format of a
// request applies to the text after them. StructuredOutputCompiler uses this file.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/token_constraint.h"
#include "serve/grammar/text_mark.h"
#include "serve/grammar/token_vocabulary.h"

namespace neuronmm::serve {

using ConstraintFactory = std::function<std::unique_ptr<model::TokenConstraint>()>;

// The rules for the thoughts of one request's answers.
struct ThinkingRules {
  std::string begin;  // the mark that opens the thoughts
  std::shared_ptr<const grammar::TextMark> end;
  // The tokens that spell the end mark, for thoughts that are ended by force.
  std::vector<text::TokenId> end_tokens = {};
  bool inside = false;  // the prompt has opened the thoughts; else the answer may do so
  // The number of tokens that the thoughts may have; without a value there is no limit.
  std::optional<int64_t> budget = {};
};

// Returns a constraint of one answer that allows free thoughts, then white space, then what the
// constraint of `make_inner` allows. If `make_inner` is empty, everything is allowed outside of the
// thoughts. Once the thoughts have `budget` tokens, only the tokens of the end mark are allowed.
// The last character of the thoughts is completed first. `vocabulary` must outlive the result.
std::unique_ptr<model::TokenConstraint> constrain_after_thoughts(
    ConstraintFactory make_inner, const grammar::TokenVocabulary& vocabulary,
    const ThinkingRules& rules);

}  // namespace neuronmm::serve
