#pragma once
// Regular expressions in the syntax of Oniguruma (Ruby's), which tokenizer.json files are written
// for, in that of PCRE2.

#include <string>
#include <string_view>

#include "base/result.h"

namespace neuronmm::text {

// What means something else in PCRE2 is rewritten, and what cannot be is refused: a silent
// difference would be wrong ids. What neither library reads is left for PCRE2 to refuse.
Result<std::string> translate_from_oniguruma(std::string_view pattern);

}  // namespace neuronmm::text
