#include "text/jinja/text_functions.h"

#include "text/jinja/unicode.h"

namespace neuronmm::text::jinja {
namespace {

bool has_character(const Text* characters, char32_t c) {
  if (characters == nullptr) return is_space(c);
  std::string bytes;
  encode(c, bytes);
  for (size_t at = 0; at < characters->bytes.size();) {
    const size_t length = decode(characters->bytes, at).length;
    if (characters->bytes.compare(at, length, bytes) == 0) return true;
    at += length;
  }
  return false;
}

Result<Value> finish(TextWriter& writer, bool markup = false) {
  NMM_ASSIGN(TextPtr text, writer.take(markup));
  return Value(std::move(text));
}

// An empty text is found before every character and at the end.
Result<Value> insert_between(Runtime& runtime, const Text& text, const Text& by, int64_t count) {
  TextWriter writer(runtime.budget);
  size_t at = 0;
  for (; count != 0 && !writer.full(); --count) {
    writer.append(by);
    if (at == text.bytes.size()) break;
    const size_t next = at + decode(text.bytes, at).length;
    writer.append(text, at, next);
    at = next;
  }
  writer.append(text, at, text.bytes.size());
  return finish(writer, text.markup);
}

}  // namespace

Result<Value> strip(Runtime& runtime, const TextPtr& text, const Text* characters, bool left,
                    bool right) {
  size_t begin = 0, end = text->bytes.size();
  const size_t set_bytes = characters != nullptr ? characters->bytes.size() : 0;
  NMM_TRY(runtime.budget.scan(end));
  while (left && begin < end) {
    NMM_TRY(runtime.budget.spend(set_bytes / 64));
    const CodePoint c = decode(text->bytes, begin);
    if (!has_character(characters, c.value)) break;
    begin += c.length;
  }
  while (right && begin < end) {
    NMM_TRY(runtime.budget.spend(set_bytes / 64));
    const CodePoint c = decode_before(text->bytes, end);
    if (!has_character(characters, c.value)) break;
    end -= c.length;
  }
  NMM_ASSIGN(TextPtr stripped, substring(runtime.budget, text, begin, end));
  return Value(std::move(stripped));
}

Result<Value> replace(Runtime& runtime, const TextPtr& text, const Text& old, const Text& by,
                      int64_t count) {
  NMM_TRY(runtime.budget.scan(text->bytes.size()));
  if (old.bytes.empty()) return insert_between(runtime, *text, by, count);
  TextWriter writer(runtime.budget);
  size_t at = 0;
  for (; count != 0 && !writer.full(); --count) {
    const size_t found = find_bytes(text->bytes, old.bytes, at);
    if (found == std::string::npos) break;
    writer.append(*text, at, found);
    writer.append(by);
    at = found + old.bytes.size();
  }
  if (at == 0) return Value(text);
  writer.append(*text, at, text->bytes.size());
  return finish(writer, text->markup);
}

Result<Value> join(Runtime& runtime, const Text& separator, const std::vector<TextPtr>& parts) {
  TextWriter writer(runtime.budget);
  for (size_t i = 0; i < parts.size() && !writer.full(); ++i) {
    if (i > 0) writer.append(separator);
    writer.append(*parts[i]);
  }
  return finish(writer);
}

// If the width and the number of fill characters are odd, str.center() puts the odd one on the
// left.
Result<Value> pad(Runtime& runtime, const TextPtr& text, int64_t width, Align align,
                  char32_t fill) {
  const auto length = static_cast<int64_t>(text->length());
  if (width <= length) return Value(text);
  const auto total = static_cast<size_t>(width - length);
  const size_t left = align == Align::kRight ? total
                      : align == Align::kCenter
                          ? total / 2 + (total & static_cast<size_t>(width) & 1)
                          : 0;
  TextWriter writer(runtime.budget);
  writer.append(fill, left);
  writer.append(*text);
  writer.append(fill, total - left);
  return finish(writer, text->markup);
}

Result<Value> reverse(Runtime& runtime, const TextPtr& text) {
  TextWriter writer(runtime.budget);
  for (size_t end = text->bytes.size(); end > 0 && !writer.full();) {
    const size_t begin = end - decode_before(text->bytes, end).length;
    writer.append(*text, begin, end);
    end = begin;
  }
  return finish(writer, text->markup);
}

}  // namespace neuronmm::text::jinja
