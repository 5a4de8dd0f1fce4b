#include "text/tokenizer/normalizer_steps.h"

#include <utf8proc.h>

#include "text/tokenizer/byte_level.h"
#include "text/unicode/character_class.h"
#include "text/unicode/utf8.h"

namespace neuronmm::text {
namespace {

constexpr utf8proc_int32_t kCapitalIWithDot = 0x130;

void append_lower(char32_t code_point, std::string& out) {
  const auto character = static_cast<utf8proc_int32_t>(code_point);
  if (code_point < 0x80) {
    out.push_back(static_cast<char>(utf8proc_tolower(character)));
  } else if (character == kCapitalIWithDot) {
    // U+0130 is the only character whose lower case is two characters: "i" and U+0307.
    out += "i\xCC\x87";
  } else {
    append_utf8(static_cast<char32_t>(utf8proc_tolower(character)), out);
  }
}

}  // namespace

std::string_view lowercase(std::string_view text, std::string& storage) {
  storage.clear();
  for (std::string_view rest = text; !rest.empty();) {
    const Utf8Step step = next_utf8(rest);
    append_lower(step.code_point, storage);
    rest.remove_prefix(static_cast<size_t>(step.length));
  }
  return storage;
}

std::string_view strip_accents(std::string_view text, std::string& storage) {
  storage.clear();
  for (std::string_view rest = text; !rest.empty();) {
    const Utf8Step step = next_utf8(rest);
    const auto length = static_cast<size_t>(step.length);
    if (!is_combining_mark(step.code_point)) storage.append(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  return storage;
}

std::string_view prepend(std::string_view prefix, std::string_view text, std::string& storage) {
  if (text.empty()) return text;
  storage.assign(prefix).append(text);
  return storage;
}

std::string_view spell_bytes(std::string_view text, std::string& storage) {
  storage.clear();
  for (const char byte : text) append_utf8(character_of_byte(byte), storage);
  return storage;
}

}  // namespace neuronmm::text
