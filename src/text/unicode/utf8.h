#pragma once
// Reads bytes that may or may not be UTF-8, one step at a time (Unicode 15, table 3-7).

#include <cstdint>
#include <string>
#include <string_view>

namespace neuronmm::text {

// A description of the bytes at the start of a text.
struct Utf8Step {
  enum class Kind {
    // The next `length` bytes are the character `code_point`.
    kCharacter,
    // The next `length` bytes cannot begin a character; one U+FFFD replaces them.
    kInvalid,
    // The text ends inside a character, and `length` is all of it.
    kIncomplete,
  };
  Kind kind;
  int length;
  char32_t code_point;
};

// Returns the step at the start of `text`, which must not be empty.
Utf8Step next_utf8(std::string_view text);

// Returns the length of the longest prefix that is UTF-8, in bytes.
int64_t valid_utf8_length(std::string_view text);

// Returns the number of characters in UTF-8 text, as Python's len() counts them.
int64_t count_code_points(std::string_view text);

void append_utf8(char32_t code_point, std::string& out);

}  // namespace neuronmm::text
