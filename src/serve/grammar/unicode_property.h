#pragma once
// The sets of characters that \p{...} stands for in a pattern. The parser of patterns
// (pattern_syntax.cc) asks for them.

#include <memory>
#include <string_view>

#include "base/result.h"
#include "serve/grammar/budget.h"
#include "serve/grammar/character_set.h"

namespace neuronmm::grammar {

// Returns the characters with a property, whose name is as in ECMA-262. It may be a general
// category ("L", "Letter", "gc=Lu"), a script ("Script=Greek", "scx=Grek") or a binary property
// ("Alphabetic", "Emoji"). The version of Unicode is that of PCRE2. An unknown name is an error.
//
// The characters of a property are found once and kept. The budget is charged as if they were found
// for this request, so that the answer to a request does not depend on earlier ones.
Result<std::shared_ptr<const CharacterSet>> characters_with_property(std::string_view name,
                                                                     Budget& budget);

}  // namespace neuronmm::grammar
