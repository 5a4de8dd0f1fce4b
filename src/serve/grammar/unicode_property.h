#pragma once
// What \p{...} means in a pattern.

#include <string>
#include <string_view>

#include "base/result.h"
#include "serve/grammar/character_set.h"

namespace neuronmm::grammar {

// The characters of a property as ECMA-262 names it: a general category ("L", "Letter", "gc=Lu"), a
// script ("Script=Greek", "scx=Grek"), or a binary property ("Alphabetic", "Emoji"). By the
// library's version of Unicode.
Result<CharacterSet> characters_with_property(std::string_view name);

}  // namespace neuronmm::grammar
