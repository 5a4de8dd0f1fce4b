#pragma once
// Reads one JSON value byte by byte while a model writes it. The scanner tells where the value ends
// and whether it is valid. The parsers of tool calls use it.

#include <string>

namespace neuronmm::serve {

// The state of reading one value.
class JsonScanner {
 public:
  enum class Step {
    kMore,
    kEnd,  // the value ends with this byte
    // The value, a number or a word, ended before this byte. The byte is not part of it.
    kEndBefore,
    kInvalid,  // the bytes so far cannot begin a JSON value
  };
  // Adds a byte. Control characters inside strings, which JSON forbids but models write, are
  // accepted: the caller must escape them.
  Step push(char c);
  bool in_string() const { return state_ == State::kString; }

 private:
  enum class State {
    kValue,        // expects a value, perhaps after white space
    kFirstMember,  // after {: expects a key or }
    kMember,       // after a comma in an object: expects a key
    kColon,
    kFirstElement,  // after [: expects a value or ]
    kAfter,         // after a value in an object or array: a comma or the end
    kString,
    kEscape,  // after a backslash
    kHex,     // after \u
    kWord,    // in a number, true, false or null
  };
  Step begin_value(char c);
  Step after_value(char c);
  Step in_key_or_string(char c);
  Step ended();
  Step in_word(char c);
  Step open(char container);

  State state_ = State::kValue;
  std::string open_;  // the brackets that are open at this place
  bool is_key_ = false;
  int hex_digits_ = 0;
  std::string word_;
};

// Returns the JSON escape of a control character.
std::string escaped_control(char c);

}  // namespace neuronmm::serve
