#pragma once
// Parses regular expressions of ECMA-262 into a tree, which pattern.h compiles. Lookbehind,
// backreferences and word borders (\b) are errors, because they are not supported.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/grammar/budget.h"
#include "serve/grammar/character_set.h"

namespace neuronmm::grammar {

struct PatternNode {
  enum class Kind {
    kCharacter,     // reads one character of `set`
    kSequence,      // reads the children one after the other; without children, reads nothing
    kAlternatives,  // reads one of the children
    kRepeat,        // reads the child `minimum` to `maximum` times
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
  size_t at = 0;  // for kLookahead: the byte of the pattern where it begins
};

// Returns the tree of a pattern. Greedy and lazy repeats describe the same language and give the
// same tree. Errors say what is wrong or not supported, and at which byte, or that the budget is
// exceeded.
Result<PatternNode> parse_pattern(std::string_view pattern, Budget& budget);

}  // namespace neuronmm::grammar
