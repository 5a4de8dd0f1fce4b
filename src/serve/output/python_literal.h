#pragma once
// Turns one literal of Python into JSON while a model writes it: strings, numbers, True, False,
// None, lists, tuples and dicts. PythonCall and the parser of named calls use it.
//
// Models write more than Python allows, and it is read as they mean it: the words of JSON (true,
// false, null), words without quotes, line ends in strings, and quotes in a string of the same
// quotes ('it's'), which end it only where a literal may end.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/output/json_scanner.h"

namespace neuronmm::serve {

// The state of reading one literal.
class PythonLiteral {
 public:
  using Step = JsonScanner::Step;
  // If `quote` is set, it is a mark that stands before and after strings, which have no escapes.
  explicit PythonLiteral(std::string quote = {}) : quote_mark_(std::move(quote)) {}
  // Adds a byte and appends to `json` what is certain. A literal ends before a comma, or before the
  // parenthesis that closes the call. In JSON, dicts have strings as keys, and tuples are arrays.
  Step push(char c, std::string& json);

 private:
  enum class State {
    kValue,    // expects a value
    kOpening,  // after a quote that begins a string, or the first of three
    kString,
    kEscape,   // after a backslash
    kCode,     // in the digits of an escape
    kClosing,  // after a quote that may end a string, and white space
    kWord,     // in a number, or a word without quotes
    kMark,     // in the mark before a string
    kMarked,   // in a string between marks
    kAfter,    // after a value in a list, tuple or dict
  };
  // A list, tuple or dict that is open.
  struct Level {
    char close;
    bool is_key = false;                 // expects a key of a dict, or is in one
    bool may_close = true;               // may close where a value is expected
    bool comma = false;                  // a comma was read, after which a value may follow
    std::optional<size_t> open_at = {};  // of parentheses that may be a tuple: its place in held_
  };

  Step begin_value(char c);
  Step open(char c);
  Step close();
  Step after_value(char c);
  Step end_value();
  Step end_before(char c);
  void decide_tuple();
  void settle();
  Step opening(char c);
  Step in_string(char c);
  Step in_escape(char c);
  Step in_code(char c);
  void end_code();
  Step closing(char c);
  void end_string();
  Step in_word(char c);
  Step end_word(char c);
  Step in_mark(char c);
  Step in_marked(char c);
  Step dispatch(char c);

  bool in_key() const { return !levels_.empty() && levels_.back().is_key; }
  // Returns whether this byte may follow a value at this place.
  bool is_terminator(char c) const;
  void emit(std::string_view json);
  void emit_text(std::string_view text);  // as part of a string
  void emit_code_point(uint32_t code);

  std::string quote_mark_;
  State state_ = State::kValue;
  std::vector<Level> levels_;
  std::string json_;      // what is certain and not passed on yet
  size_t undecided_ = 0;  // levels that may be a tuple or only parentheses
  char quote_ = 0;        // the quote of the current string
  int quotes_ = 0;        // quotes read at its beginning or at its end
  bool triple_ = false, is_raw_ = false;
  std::string held_;  // bytes that may end the current string
  std::string word_;
  char code_kind_ = 0;  // the letter of an escape with digits, or '0' for octal digits
  std::string digits_;
  uint32_t high_surrogate_ = 0;  // of a pair whose second half may follow
};

// Returns the JSON of a text that is one literal, or nothing.
std::optional<std::string> python_to_json(std::string_view text);

}  // namespace neuronmm::serve
