#pragma once
// The strings in which a regular expression is found: somewhere, as `pattern` of JSON Schema says,
// unless ^ and $ hold it.

#include <string_view>

#include "base/result.h"
#include "serve/grammar/string_language.h"

namespace neuronmm::grammar {

// The syntax is that of pattern_syntax.h. An error too where the automaton would be larger than
// StringLanguage allows; the time to find that out is bounded.
Result<StringLanguage> compile_pattern(std::string_view pattern);

}  // namespace neuronmm::grammar
