#include "text/jinja/text.h"

#include <algorithm>
#include <utility>

#include "text/jinja/unicode.h"

namespace neuronmm::text::jinja {
namespace {

bool is_ascii(std::string_view bytes) {
  return std::ranges::all_of(bytes, [](char c) { return static_cast<signed char>(c) >= 0; });
}

}  // namespace

size_t Text::length() const { return ascii ? bytes.size() : count_code_points(bytes); }

size_t Text::byte_of(size_t index) const {
  return ascii ? std::min(index, bytes.size()) : byte_of_index(bytes, index);
}

size_t Text::index_of(size_t byte) const {
  return ascii ? byte : count_code_points(std::string_view(bytes).substr(0, byte));
}

bool TextWriter::fits(size_t more) {
  full_ = full_ || more > limit_ - text_.bytes.size();
  return !full_;
}

// Texts grow only at their end, so that a new range comes last or extends the last range.
void TextWriter::mark_said(size_t begin, size_t end) {
  if (begin == end) return;
  if (!text_.said.empty() && text_.said.back().end == begin)
    text_.said.back().end = end;
  else
    text_.said.push_back({begin, end});
}

void TextWriter::append(std::string_view bytes, bool said) {
  if (!fits(bytes.size())) return;
  const size_t begin = text_.bytes.size();
  text_.bytes += bytes;
  if (said) mark_said(begin, text_.bytes.size());
}

void TextWriter::append(const Text& text, size_t begin, size_t end) {
  if (!fits(end - begin)) return;
  const size_t start = text_.bytes.size();
  text_.bytes.append(text.bytes, begin, end - begin);
  auto span = std::ranges::lower_bound(text.said, begin + 1, {}, &Span::end);
  for (; span != text.said.end() && span->begin < end; ++span) {
    mark_said(start + std::max(span->begin, begin) - begin,
              start + std::min(span->end, end) - begin);
  }
}

void TextWriter::append(char32_t c, size_t count) {
  std::string one;
  encode(c, one);
  if (count > limit_ / one.size() || !fits(count * one.size())) {
    full_ = true;
    return;
  }
  for (size_t i = 0; i < count; ++i) text_.bytes += one;
}

Result<TextPtr> TextWriter::take(bool markup) {
  if (full_) return fail("a text of more than {} bytes", limit_);
  NMM_TRY(budget_.allocate(text_.bytes.size() + text_.said.size() * sizeof(Span) + sizeof(Text)));
  NMM_TRY(budget_.scan(text_.bytes.size()));
  text_.ascii = is_ascii(text_.bytes);
  text_.markup = markup;
  return TextPtr(std::make_shared<const Text>(std::move(text_)));
}

Result<TextPtr> part(Budget& budget, const TextPtr& text, size_t begin, size_t end) {
  if (begin == 0 && end == text->bytes.size()) return text;
  TextWriter writer(budget);
  writer.append(*text, begin, end);
  return writer.take(text->markup);
}

bool is_said(const Text& text, size_t at, size_t& hint) {
  while (hint < text.said.size() && text.said[hint].end <= at) ++hint;
  return hint < text.said.size() && text.said[hint].begin <= at;
}

}  // namespace neuronmm::text::jinja
