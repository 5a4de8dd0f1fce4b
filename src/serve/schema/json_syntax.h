#pragma once
// The syntax of JSON as rules of a grammar, which all schemas share. The lowering of schemas
// (schema_lowering.h) adds them to its grammar.
//
// White space is limited, so that a model cannot write it without end:
// - After { [ and a comma and before } and ], there may be one space, or a line end and up to
//   kMaxIndentation spaces.
// - After a colon, there may be one space.
// - Elsewhere, there is none.

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

// Returns `utf8` as a JSON string with its quotation marks. Only characters that must be escaped
// are.
std::string json_text_of(std::string_view utf8);

class JsonSyntax {
 public:
  // Assumed: 16 levels of two spaces, or eight of four, suffice to read an answer.
  static constexpr int kMaxIndentation = 32;

  // Charges `budget` for its own tables. The grammar charges for itself.
  JsonSyntax(Grammar& grammar, Budget& budget) : grammar_(grammar), budget_(budget) {}

  Budget& budget() const { return budget_; }

  // The rules are made when they are first asked for.

  // Reads one character of a string, as it is or with any escape of JSON. Half of a surrogate pair
  // is not a character.
  RuleId character();
  RuleId string();
  // Reads a string of at least `minimum` characters, and at most `maximum` if it has a value.
  RuleId counted_string(int64_t minimum, std::optional<int64_t> maximum);
  // Reads a number of at most kMostSignificant digits if it has a fraction, else of at most
  // kMostWhole, with an exponent of at most two digits. Zeros that begin a fraction do not count.
  RuleId number();
  // Reads a number of at most kMostWhole digits without fraction and exponent, except -0.
  RuleId integer();
  RuleId value();  // reads any JSON value

  // The functions below add edges between two positions. add_white_space() reads the white space
  // that the list above allows; add_comma() and add_colon() include it.
  void add_white_space(PositionId from, PositionId to);
  void add_comma(PositionId from, PositionId to);
  void add_colon(PositionId from, PositionId to);
  void add_string(PositionId from, std::string_view utf8, PositionId to);
  // Reads a JSON string whose value is in the language. Characters are written as they are. Those
  // that JSON must escape are escaped in the shortest form.
  void add_string_of(PositionId from, const StringLanguage& language, PositionId to);
  // Does the same without calls of other rules.
  void add_string_without_calls(PositionId from, const StringLanguage& language, PositionId to);
  // Reads the texts of the language without quotation marks and escapes. They are numbers, or text
  // that is not JSON.
  void add_text_of(PositionId from, const StringLanguage& language, PositionId to);

 private:
  // Returns a rule that reads a character of the set. A call of it costs only one edge.
  RuleId character_of(const std::vector<CharacterRange>& set, bool in_string);
  PositionId position() { return grammar_.add_position(); }
  void add_escapes(PositionId from, PositionId to);
  void add_value(RuleId rule);
  RuleId white_space();
  // Returns the positions after the first, second, ... digit before the point.
  std::vector<PositionId> whole_digits(PositionId start, PositionId minus);
  // Adds up to `most` digits. Fewer may come, but at least `least`, which is 0 or 1.
  void add_digits(PositionId from, int most, int least, PositionId to);

  Grammar& grammar_;
  Budget& budget_;
  std::optional<RuleId> character_, string_, number_, integer_, value_, white_space_;
  std::map<std::pair<int64_t, std::optional<int64_t>>, RuleId> counted_;
  std::map<std::pair<std::vector<std::pair<char32_t, char32_t>>, bool>, RuleId> sets_;
};

}  // namespace neuronmm::grammar
