#include "text/jinja/unicode.h"

#include <algorithm>
#include <array>

#include <utf8proc.h>

namespace neuronmm::text::jinja {
namespace {

// A byte that is not UTF-8 is this number plus the byte.
constexpr char32_t kEscapedByte = 0xDC00;

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

// The unconditional mappings of letters in use in Unicode's SpecialCasing.txt. The 27 Greek letters
// with an iota below are left out.
struct SpecialCase {
  char32_t letter;
  std::string_view upper, title;
};
constexpr std::array<SpecialCase, 21> kSpecialCases = {
    {{0x00DF, "SS", "Ss"}, {0x0149, "ʼN", "ʼN"}, {0x01F0, "J̌", "J̌"},     {0x0390, "Ϊ́", "Ϊ́"},
     {0x03B0, "Ϋ́", "Ϋ́"},   {0x0587, "ԵՒ", "Եւ"}, {0x1E96, "H̱", "H̱"},     {0x1E97, "T̈", "T̈"},
     {0x1E98, "W̊", "W̊"},   {0x1E99, "Y̊", "Y̊"},   {0x1E9A, "Aʾ", "Aʾ"},   {0xFB00, "FF", "Ff"},
     {0xFB01, "FI", "Fi"}, {0xFB02, "FL", "Fl"}, {0xFB03, "FFI", "Ffi"}, {0xFB04, "FFL", "Ffl"},
     {0xFB05, "ST", "St"}, {0xFB06, "ST", "St"}, {0xFB13, "ՄՆ", "Մն"},   {0xFB14, "ՄԵ", "Մե"},
     {0xFB15, "ՄԻ", "Մի"}}};

const SpecialCase* special_case(char32_t c) {
  if (c < 0x80) return nullptr;
  const auto found = std::ranges::find(kSpecialCases, c, &SpecialCase::letter);
  return found == kSpecialCases.end() ? nullptr : &*found;
}

// Unicode's Case_Ignorable: characters that do not separate the letters before and after them.
bool is_case_ignorable(char32_t c) {
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_ME ||
         kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_LM ||
         kind == UTF8PROC_CATEGORY_SK || c == '\'' || c == '.' || c == ':' || c == 0xB7 ||
         c == 0x2019;
}

bool cased_before(std::string_view text, size_t end) {
  while (end > 0) {
    const CodePoint c = decode_before(text, end);
    if (!is_case_ignorable(c.value)) return is_cased(c.value);
    end -= c.length;
  }
  return false;
}

bool cased_after(std::string_view text, size_t at) {
  while (at < text.size()) {
    const CodePoint c = decode(text, at);
    if (!is_case_ignorable(c.value)) return is_cased(c.value);
    at += c.length;
  }
  return false;
}

}  // namespace

CodePoint decode(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) return {byte, 1};
  utf8proc_int32_t c = -1;
  const auto length =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                       static_cast<utf8proc_ssize_t>(std::min<size_t>(4, text.size() - at)), &c);
  if (length <= 0) return {kEscapedByte + byte, 1};
  return {static_cast<char32_t>(c), static_cast<size_t>(length)};
}

CodePoint decode_before(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && end - at < 4 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  const CodePoint c = decode(text.substr(0, end), at);
  if (at + c.length == end) return c;
  return {kEscapedByte + static_cast<unsigned char>(text[end - 1]), 1};
}

void encode(char32_t c, std::string& out) {
  if (c >= kEscapedByte + 0x80 && c <= kEscapedByte + 0xFF) {
    out += static_cast<char>(c - kEscapedByte);
    return;
  }
  utf8proc_uint8_t bytes[4];
  const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(count));
}

size_t count_code_points(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); at += decode(text, at).length) ++count;
  return count;
}

size_t byte_of_index(std::string_view text, size_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += decode(text, at).length;
  return at;
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool is_line_end(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= ' ';
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_alpha(char32_t c) {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }

bool is_digit(char32_t c) {
  return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
         (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) ||
         (c >= 0x2460 && c <= 0x2468);
}

bool is_numeric(char32_t c) {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO;
}

bool is_lower(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA ||
         (c >= 0x2B0 && c <= 0x2B8) || (c >= 0x2170 && c <= 0x217F) || (c >= 0x24D0 && c <= 0x24E9);
}

bool is_upper(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LU || (c >= 0x2160 && c <= 0x216F) ||
         (c >= 0x24B6 && c <= 0x24CF);
}

bool is_title(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }

bool is_cased(char32_t c) { return is_lower(c) || is_upper(c) || is_title(c); }

bool is_identifier_start(char32_t c) {
  return c == '_' || is_alpha(c) || category(c) == UTF8PROC_CATEGORY_NL;
}

bool is_identifier_part(char32_t c) {
  const auto kind = category(c);
  return is_identifier_start(c) || kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC ||
         kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_PC || c == 0xB7;
}

bool is_word(char32_t c) { return c == '_' || is_alpha(c) || is_numeric(c); }

// Unicode's decimal digits lie in runs of ten, so the first digit is found by going back. A run
// begins at a multiple of ten or sixteen from the start of its block.
int decimal_value(char32_t c) {
  if (c < 0x80) return static_cast<int>(c - '0');
  int value = 0;
  while (value < 9 && is_decimal(c - static_cast<char32_t>(value) - 1)) ++value;
  return value;
}

void append_upper(char32_t c, std::string& out) {
  if (const SpecialCase* special = special_case(c))
    out += special->upper;
  else
    encode(static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))), out);
}

void append_title(char32_t c, std::string& out) {
  if (const SpecialCase* special = special_case(c))
    out += special->title;
  else
    encode(static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))), out);
}

void append_casefold(char32_t c, std::string& out) {
  utf8proc_int32_t folded[4];
  int boundary = 0;
  const auto count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), folded, 4,
                              static_cast<utf8proc_option_t>(UTF8PROC_CASEFOLD), &boundary);
  if (count <= 0 || count > 4) return encode(c, out);
  for (int i = 0; i < count; ++i) encode(static_cast<char32_t>(folded[i]), out);
}

void append_lower(std::string_view text, size_t at, std::string& out) {
  const CodePoint c = decode(text, at);
  if (c.value == 0x130) {
    out += "i\u0307";
  } else if (c.value == 0x3A3) {
    const bool is_final = cased_before(text, at) && !cased_after(text, at + c.length);
    out += is_final ? "ς" : "σ";
  } else {
    encode(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c.value))), out);
  }
}

}  // namespace neuronmm::text::jinja
