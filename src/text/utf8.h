#pragma once
// One step through bytes that may or may not be UTF-8 (Unicode 15, table 3-7).

#include <cstdint>
#include <string>
#include <string_view>

namespace neuronmm::text {

struct Utf8Step {
  enum class Kind {
    kCharacter,   // `length` bytes are the character `code_point`
    kInvalid,     // `length` bytes can never begin a character: one U+FFFD
    kIncomplete,  // the text ends inside a character; `length` is all of it
  };
  Kind kind;
  int length;
  char32_t code_point;
};

// The step at the start of `text`, which is not empty.
Utf8Step next_utf8(std::string_view text);

// The length of the longest prefix that is UTF-8.
int64_t valid_utf8_length(std::string_view text);

void append_utf8(char32_t code_point, std::string& out);

}  // namespace neuronmm::text
