#pragma once
// The syntax of ECMA-262 regular expressions, as far as they are regular languages: no lookbehind,
// no backreferences, no word borders, no \p{...}.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/grammar/character_set.h"

namespace neuronmm::grammar {

struct PatternNode {
  enum class Kind {
    kCharacter,     // one of `set`
    kSequence,      // the children one after the other; none: nothing
    kAlternatives,  // one of the children
    kRepeat,        // the child `minimum` to `maximum` times
    kBegin,         // ^
    kEnd,           // $
    kLookahead,     // (?=child), or (?!child) if `negative`; reads nothing
  };
  Kind kind;
  CharacterSet set;
  std::vector<PatternNode> children;
  int64_t minimum = 0;
  std::optional<int64_t> maximum;
  bool negative = false;
  size_t at = 0;  // of kLookahead: the byte where it begins
};

// Greedy and lazy repeats are the same language and the same tree. Errors say what is not
// supported, and at which byte.
Result<PatternNode> parse_pattern(std::string_view pattern);

}  // namespace neuronmm::grammar
