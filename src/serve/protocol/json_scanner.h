#pragma once
// One JSON value read byte by byte, as a model writes it: where it ends, and whether it is one.

#include <string>
#include <string_view>
#include <vector>

namespace neuronmm::serve {

class JsonScanner {
 public:
  enum class Step {
    kMore,
    kEnd,        // the value ends with this byte
    kEndBefore,  // the value, a number or a word, ended before this byte, which is no part of it
    kInvalid,    // no JSON value goes on so
  };
  // Control characters inside strings, which JSON forbids and models write, are let through: the
  // caller escapes them.
  Step push(char c);
  bool in_string() const { return state_ == State::kString; }

 private:
  enum class State {
    kValue,        // white space, or a value begins
    kFirstMember,  // behind {: a key or }
    kMember,       // behind a comma in an object: a key
    kColon,
    kFirstElement,  // behind [: a value or ]
    kAfter,         // behind a value inside of something: a comma or the end
    kString,
    kEscape,  // behind a backslash
    kHex,     // behind \u
    kWord,    // a number, true, false or null
  };
  Step begin_value(char c);
  Step after_value(char c);
  Step in_key_or_string(char c);
  Step ended();
  Step in_word(char c);
  Step open(char container);

  State state_ = State::kValue;
  std::string open_;  // the brackets around the place
  bool is_key_ = false;
  int hex_digits_ = 0;
  std::string word_;
};

// The escape of a control character in a JSON string.
std::string escaped_control(char c);

}  // namespace neuronmm::serve
