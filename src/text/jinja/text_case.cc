// Changes the letter case of texts.

#include "text/jinja/text_functions.h"
#include "text/jinja/unicode.h"

namespace neuronmm::text::jinja {
namespace {

// Appends what the character at `at` becomes. `word_start` is true for a character without a cased
// character before it (kTitle), or for the first one of the text (kCapitalize).
void append_changed(const Text& text, size_t at, Case to, bool word_start, std::string& out) {
  const char32_t c = decode(text.bytes, at).value;
  switch (to) {
    case Case::kUpper:
      return append_upper(c, out);
    case Case::kLower:
      return append_lower(text.bytes, at, out);
    case Case::kFold:
      return append_casefold(c, out);
    case Case::kSwap:
      if (is_upper(c)) return append_lower(text.bytes, at, out);
      return is_lower(c) ? append_upper(c, out) : encode(c, out);
    default:
      return word_start ? append_title(c, out) : append_lower(text.bytes, at, out);
  }
}

}  // namespace

Result<Value> change_case(Runtime& runtime, const TextPtr& text, Case to) {
  TextWriter writer(runtime.budget);
  bool word_start = true;
  size_t hint = 0;
  for (size_t at = 0; at < text->bytes.size() && !writer.full();) {
    const CodePoint c = decode(text->bytes, at);
    std::string changed;
    append_changed(*text, at, to, word_start, changed);
    writer.append(changed, is_from_message(*text, at, hint));
    word_start = to == Case::kTitle && !is_cased(c.value);
    at += c.length;
  }
  NMM_ASSIGN(TextPtr changed, writer.take(text->markup));
  return Value(std::move(changed));
}

// The first character of a word becomes upper case, and the others become lower case. Each word is
// changed without its surroundings.
Result<Value> title_words(Runtime& runtime, const TextPtr& text) {
  const auto parts_words = [](char32_t c) {
    return is_space(c) || (c < 0x80 && std::string_view("-({[<").find(static_cast<char>(c)) !=
                                           std::string_view::npos);
  };
  TextWriter writer(runtime.budget);
  size_t hint = 0;
  for (size_t at = 0; at < text->bytes.size() && !writer.full();) {
    size_t end = at;
    const bool between = parts_words(decode(text->bytes, at).value);
    while (end < text->bytes.size() && parts_words(decode(text->bytes, end).value) == between)
      end += decode(text->bytes, end).length;
    const std::string_view word = std::string_view(text->bytes).substr(at, end - at);
    for (size_t i = 0; i < word.size(); i += decode(word, i).length) {
      std::string changed;
      if (i == 0)
        append_upper(decode(word, 0).value, changed);
      else
        append_lower(word.substr(decode(word, 0).length), i - decode(word, 0).length, changed);
      writer.append(changed, is_from_message(*text, at + i, hint));
    }
    at = end;
  }
  NMM_ASSIGN(TextPtr titled, writer.take());
  return Value(std::move(titled));
}

}  // namespace neuronmm::text::jinja
