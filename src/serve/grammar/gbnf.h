#pragma once
// Compiles a grammar in GBNF, the language of llama.cpp's field "grammar", into a grammar whose
// texts are those of its rule `root`. The server's compiler of structured outputs (serve/http)
// calls it. docs/guide/structured_output.md describes the language and its limits.
//
// Time and memory are bounded by the budget (budget.h). Errors name the line and the rule.

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "serve/grammar/budget.h"
#include "serve/grammar/grammar.h"
#include "text/tokenizer/token_id.h"

namespace neuronmm::grammar {

// Finds the tokens that a grammar names.
struct GbnfVocabulary {
  // Returns the token whose text is exactly this, for example "<think>".
  std::function<std::optional<text::TokenId>(std::string_view text)> token_of;
  // Returns whether an answer may have the token: it exists, and it does not end the answer.
  std::function<bool(text::TokenId)> may_occur;
};

// `source` begins messages.
Result<CompiledGrammar> compile_gbnf(std::string_view text, const std::string& source,
                                     const GbnfVocabulary& vocabulary, Budget* budget = nullptr);

}  // namespace neuronmm::grammar
