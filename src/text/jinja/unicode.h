#pragma once
// The code points of UTF-8 text, and what Python's str knows about them (Unicode 15, as Python
// 3.11). Everything in this folder that looks at characters uses it. Nothing here can fail; bytes
// that are not UTF-8 have code points, too.

#include <cstddef>
#include <string>
#include <string_view>

namespace neuronmm::text::jinja {

// The character at a byte of a text. A byte that is not UTF-8 counts as one character, U+DC80 to
// U+DCFF, as in Python's "surrogateescape". encode() turns it back into the byte.
struct CodePoint {
  char32_t value;
  size_t length;  // The length in bytes.
};

// Returns the character that begins at byte `at`, which is less than the size of the text.
CodePoint decode(std::string_view text, size_t at);
// Returns the character that ends at byte `end`, which is greater than 0.
CodePoint decode_before(std::string_view text, size_t end);
// Appends the bytes of a character.
void encode(char32_t c, std::string& out);

size_t count_code_points(std::string_view text);
// Returns the byte at which the character of this index begins. An index past the end gives the
// size of the text.
size_t byte_of_index(std::string_view text, size_t index);

// Return what str.isspace() and its relatives say about one character.
bool is_space(char32_t c);
// The characters at which str.splitlines() splits.
bool is_line_end(char32_t c);
bool is_printable(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
// Decimal digits and superscripts.
bool is_digit(char32_t c);
// Digits, fractions, Roman numerals and so on.
bool is_numeric(char32_t c);
bool is_lower(char32_t c);
bool is_upper(char32_t c);
bool is_title(char32_t c);
bool is_cased(char32_t c);
bool is_identifier_start(char32_t c);
bool is_identifier_part(char32_t c);
// \w of Python's re.
bool is_word(char32_t c);
// Returns 0 to 9 for a decimal digit of any script.
int decimal_value(char32_t c);

// Append the full case mapping, by which "ß" has the upper case "SS".
void append_upper(char32_t c, std::string& out);
void append_title(char32_t c, std::string& out);
void append_casefold(char32_t c, std::string& out);
// Appends the lower case of the character at a byte of `text`. The lower case of "Σ" depends on the
// characters around it.
void append_lower(std::string_view text, size_t at, std::string& out);

}  // namespace neuronmm::text::jinja
