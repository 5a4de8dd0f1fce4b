#include "text/jinja/literal.h"

#include <algorithm>

#include "text/jinja/unicode.h"

namespace neuronmm::text::jinja {
namespace {

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

// Returns the length of digits that may have single underscores between them.
template <typename IsDigit>
size_t digits_length(std::string_view text, IsDigit is_digit_of) {
  size_t i = 0;
  while (i < text.size()) {
    if (is_digit_of(text[i]))
      ++i;
    else if (i > 0 && text[i] == '_' && i + 1 < text.size() && is_digit_of(text[i + 1]))
      i += 2;
    else
      break;
  }
  return i;
}

size_t exponent_length(std::string_view text) {
  if (text.empty() || (text[0] | 0x20) != 'e') return 0;
  const size_t sign = text.size() > 1 && (text[1] == '+' || text[1] == '-') ? 1 : 0;
  const size_t digits = digits_length(text.substr(1 + sign), is_ascii_digit);
  return digits == 0 ? 0 : 1 + sign + digits;
}

int digit_value(char c) {
  if (is_ascii_digit(c)) return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 16;
}

// Keeps the backslash of an unknown escape. Jinja turns strings to ASCII before it looks at
// escapes. A character beyond ASCII therefore becomes Python's escape of it, without that escape's
// own backslash.
void keep_backslash(std::string_view text, size_t& at, std::string& out) {
  const CodePoint c = decode(text, at);
  const auto number = static_cast<uint32_t>(c.value);
  out += '\\';
  if (number < 0x80)
    out += static_cast<char>(number);
  else if (number < 0x100)
    out += fmt::format("x{:02x}", number);
  else
    out += number < 0x10000 ? fmt::format("u{:04x}", number) : fmt::format("U{:08x}", number);
  at += c.length;
}

// Reads \xHH, \uHHHH or \UHHHHHHHH. `at` is the position after the letter.
Status append_hex(std::string_view text, size_t count, size_t& at, std::string& out) {
  uint32_t value = 0;
  for (size_t i = 0; i < count; ++i, ++at) {
    const int digit = at < text.size() ? digit_value(text[at]) : 16;
    if (digit == 16) return fail("truncated escape in a string: expected {} hex digits", count);
    value = value << 4 | static_cast<uint32_t>(digit);
  }
  if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
    return fail("illegal Unicode character in a string: U+{:X}", value);
  encode(value, out);
  return {};
}

void append_octal(std::string_view text, size_t& at, std::string& out) {
  char32_t value = 0;
  for (int i = 0; i < 3 && at < text.size() && text[at] >= '0' && text[at] <= '7'; ++i, ++at)
    value = value * 8 + static_cast<char32_t>(text[at] - '0');
  encode(value, out);
}

Status append_escape(std::string_view text, size_t& at, std::string& out) {
  constexpr std::string_view kLetters = "abfnrtv\\'\"\n", kMeanings = "\a\b\f\n\r\t\v\\'\"";
  if (at == text.size()) return fail("a string ends in a backslash");
  const char c = text[at];
  if (c == 'x' || c == 'u' || c == 'U')
    return append_hex(text, c == 'x' ? 2 : c == 'u' ? 4 : 8, ++at, out);
  if (c == 'N') return fail("expected a string without names of characters, found \\N");
  if (c >= '0' && c <= '7') {
    append_octal(text, at, out);
    return {};
  }
  const size_t known = kLetters.find(c);
  if (known == std::string_view::npos) {
    keep_backslash(text, at, out);
    return {};
  }
  ++at;
  // A line end after a backslash is left out.
  if (known < kMeanings.size()) out += kMeanings[known];
  return {};
}

}  // namespace

size_t float_length(std::string_view text, bool after_dot) {
  const size_t whole = digits_length(text, is_ascii_digit);
  if (whole == 0 || after_dot) return 0;
  size_t length = whole;
  if (length + 1 < text.size() && text[length] == '.' && is_ascii_digit(text[length + 1]))
    length += 1 + digits_length(text.substr(length + 1), is_ascii_digit);
  const size_t exponent = exponent_length(text.substr(length));
  return length + exponent > whole ? length + exponent : 0;
}

size_t integer_length(std::string_view text) {
  if (text.empty() || !is_ascii_digit(text[0])) return 0;
  if (text[0] != '0') return digits_length(text, is_ascii_digit);
  const int base = text.size() < 3           ? 0
                   : (text[1] | 0x20) == 'x' ? 16
                   : (text[1] | 0x20) == 'o' ? 8
                   : (text[1] | 0x20) == 'b' ? 2
                                             : 0;
  if (base != 0) {
    const size_t skip = text[2] == '_' ? 3 : 2;
    const size_t digits =
        digits_length(text.substr(skip), [base](char c) { return digit_value(c) < base; });
    if (digits > 0) return skip + digits;
  }
  return digits_length(text, [](char c) { return c == '0'; });
}

Result<std::string> unescape(std::string_view quoted) {
  std::string out;
  for (size_t at = 0; at < quoted.size();) {
    if (quoted[at] != '\\') {
      out += quoted[at++];
      continue;
    }
    NMM_TRY(append_escape(quoted, ++at, out));
  }
  return out;
}

}  // namespace neuronmm::text::jinja
