#pragma once
// Turns a regular expression into the language of the strings in which it is found. The match may
// be anywhere in the string, as for `pattern` of JSON Schema, unless ^ and $ anchor it. Patterns,
// formats and patternProperties are compiled this way.

#include <string_view>

#include "base/result.h"
#include "serve/grammar/budget.h"
#include "serve/grammar/string_language.h"

namespace neuronmm::grammar {

// Compiles a pattern in the syntax of pattern_syntax.h. Returns an error if the syntax is wrong or
// not supported, if the automaton would be larger than StringLanguage allows, or if the budget is
// exceeded.
Result<StringLanguage> compile_pattern(std::string_view pattern, Budget& budget);
// Does the same with a budget of its own.
Result<StringLanguage> compile_pattern(std::string_view pattern);

}  // namespace neuronmm::grammar
