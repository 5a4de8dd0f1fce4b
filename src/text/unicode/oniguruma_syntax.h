#pragma once
// Translates regular expressions from the syntax of Oniguruma (Ruby's), in which tokenizer.json
// files are written, into the syntax of PCRE2. SplitRegex is the caller.

#include <string>
#include <string_view>

#include "base/result.h"

namespace neuronmm::text {

// Rewrites what means something else in PCRE2. Fails on what PCRE2 cannot express, because a silent
// difference would give wrong ids. PCRE2 reports the errors that both syntaxes have in common.
Result<std::string> translate_from_oniguruma(std::string_view pattern);

}  // namespace neuronmm::text
