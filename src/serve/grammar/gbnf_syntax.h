#pragma once
// Parses GBNF, the language in which llama.cpp's clients write grammars, into a tree that gbnf.h
// compiles. docs/guide/structured_output.md describes the language.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/grammar/budget.h"
#include "serve/grammar/character_set.h"

namespace neuronmm::grammar {

enum class GbnfKind {
  kText,          // reads `text`, which may be empty
  kCharacter,     // reads one character of `set`
  kRule,          // reads a text of rule `number`
  kToken,         // reads the named token `number`, or any other token if `negative`
  kSequence,      // reads the children one after the other
  kAlternatives,  // reads one of the children
  kRepeat,        // reads the child `minimum` to `maximum` times
};

struct GbnfNode {
  GbnfKind kind;
  std::string text = {};
  CharacterSet set = {};
  size_t number = 0;  // an index of GbnfSyntax::rules or GbnfSyntax::tokens
  bool negative = false;
  std::vector<GbnfNode> children = {};
  int64_t minimum = 0;
  std::optional<int64_t> maximum = {};
};

struct GbnfRule {
  std::string name;
  int64_t line = 0;      // of the definition, or else of the first use
  bool defined = false;  // true for all rules of a parsed grammar
  GbnfNode body = {GbnfKind::kSequence};
};

struct GbnfSyntax {
  std::vector<GbnfRule> rules;      // in the order of their first mention
  std::vector<std::string> tokens;  // "<think>" or "<[1000]>", each once
  std::vector<std::string> notes;   // for the client: rules that were defined twice
};

// Returns the tree. All rules that are used are defined. An error names the line and says what was
// expected, or that the budget is exceeded. The time is linear in the length of the text, up to a
// logarithm for looking up names.
Result<GbnfSyntax> parse_gbnf(std::string_view text, Budget& budget);

}  // namespace neuronmm::grammar
