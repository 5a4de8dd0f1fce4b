#include "text/unicode/white_space.h"

#include "text/unicode/utf8.h"

namespace neuronmm::text {
namespace {

// Returns where the last character begins, or the bytes that may be one.
size_t last_character_start(std::string_view text) {
  size_t i = text.size() - 1;
  while (i > 0 && text.size() - i < 4 && (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80) --i;
  return i;
}

}  // namespace

// The characters with the Unicode property White_Space.
bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_python_space(char32_t c) { return is_white_space(c) || (c >= 0x1C && c <= 0x1F); }

std::optional<char32_t> first_character(std::string_view text) {
  if (text.empty()) return {};
  const Utf8Step step = next_utf8(text);
  if (step.kind != Utf8Step::Kind::kCharacter) return {};
  return step.code_point;
}

std::optional<char32_t> last_character(std::string_view text) {
  if (text.empty()) return {};
  const std::string_view last = text.substr(last_character_start(text));
  if (static_cast<size_t>(next_utf8(last).length) != last.size()) return {};
  return first_character(last);
}

std::string_view strip_left(std::string_view text, IsSpace is_space) {
  for (auto c = first_character(text); c && is_space(*c); c = first_character(text)) {
    text.remove_prefix(static_cast<size_t>(next_utf8(text).length));
  }
  return text;
}

std::string_view strip_right(std::string_view text, IsSpace is_space) {
  for (auto c = last_character(text); c && is_space(*c); c = last_character(text)) {
    text = text.substr(0, last_character_start(text));
  }
  return text;
}

}  // namespace neuronmm::text
