#pragma once
// The sets of characters that \p{...} stands for in a pattern. The parser of patterns
// (pattern_syntax.cc) asks for them.

#include <string>
#include <string_view>

#include "base/result.h"
#include "serve/grammar/character_set.h"

namespace neuronmm::grammar {

// Returns the characters with a property, whose name is as in ECMA-262. It may be a general
// category
// ("L", "Letter", "gc=Lu"), a script ("Script=Greek", "scx=Grek") or a binary property
// ("Alphabetic", "Emoji"). The version of Unicode is that of PCRE2. An unknown name is an error.
Result<CharacterSet> characters_with_property(std::string_view name);

}  // namespace neuronmm::grammar
