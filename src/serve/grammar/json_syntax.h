#pragma once
// How JSON is written: the rules that all schemas share, and the white space that answers may have.
// Behind { [ and a comma, and before } and ] may stand one space, or a line end and up to
// kMaxIndentation spaces; behind a colon one space; elsewhere nothing, so that white space ends.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/grammar/grammar.h"
#include "serve/grammar/string_language.h"

namespace neuronmm::grammar {

// As a string of JSON, with its quotes; only what must be escaped is.
std::string json_text_of(std::string_view utf8);

class JsonSyntax {
 public:
  static constexpr int kMaxIndentation = 32;

  explicit JsonSyntax(Grammar& grammar) : grammar_(grammar) {}

  RuleId character();  // of a string, in any way that JSON writes it; all of them are Unicode
  RuleId string();
  // Of `minimum` to `maximum` characters, or more where there is no maximum.
  RuleId counted_string(int64_t minimum, std::optional<int64_t> maximum);
  RuleId number();   // the exponent has up to two digits
  RuleId integer();  // no fraction, no exponent, no -0
  RuleId value();    // anything

  void add_gap(PositionId from, PositionId to);
  void add_comma(PositionId from, PositionId to);
  void add_colon(PositionId from, PositionId to);
  void add_string(PositionId from, std::string_view utf8, PositionId to);
  // A string of the language. Its characters are written as they are; with a backslash where JSON
  // asks for it, in the shortest way.
  void add_string_of(PositionId from, const StringLanguage& language, PositionId to);
  // The same without calls of other rules.
  void add_string_without_calls(PositionId from, const StringLanguage& language, PositionId to);
  // The language as it is: numbers, or a text that is no JSON.
  void add_text_of(PositionId from, const StringLanguage& language, PositionId to);

 private:
  // A character of the set, which costs one edge wherever it is called.
  RuleId character_of(const std::vector<CharacterRange>& set, bool in_string);
  PositionId position() { return grammar_.add_position(); }
  void add_escapes(PositionId from, PositionId to);
  void add_value(RuleId rule);
  RuleId gap();

  Grammar& grammar_;
  std::optional<RuleId> character_, string_, number_, integer_, value_, gap_;
  std::map<std::pair<int64_t, std::optional<int64_t>>, RuleId> counted_;
  std::map<std::pair<std::vector<std::pair<char32_t, char32_t>>, bool>, RuleId> sets_;
};

}  // namespace neuronmm::grammar
