#include "text/jinja/text.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "text/jinja/unicode.h"

namespace neuronmm::text::jinja {
namespace {

bool is_ascii(std::string_view bytes) {
  return std::ranges::all_of(bytes, [](char c) { return static_cast<signed char>(c) >= 0; });
}

}  // namespace

size_t Text::length() const { return ascii ? bytes.size() : characters; }

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
void TextWriter::mark_from_messages(size_t begin, size_t end) {
  if (begin == end) return;
  if (!text_.from_messages.empty() && text_.from_messages.back().end == begin)
    text_.from_messages.back().end = end;
  else
    text_.from_messages.push_back({begin, end});
}

void TextWriter::append(std::string_view bytes, bool from_messages) {
  if (!fits(bytes.size())) return;
  const size_t begin = text_.bytes.size();
  text_.bytes += bytes;
  if (from_messages) mark_from_messages(begin, text_.bytes.size());
}

void TextWriter::append(const Text& text, size_t begin, size_t end) {
  if (!fits(end - begin)) return;
  const size_t start = text_.bytes.size();
  text_.bytes.append(text.bytes, begin, end - begin);
  auto span = std::ranges::lower_bound(text.from_messages, begin + 1, {}, &Span::end);
  for (; span != text.from_messages.end() && span->begin < end; ++span) {
    mark_from_messages(start + std::max(span->begin, begin) - begin,
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
  NMM_TRY(budget_.allocate(text_.bytes.size() + text_.from_messages.size() * sizeof(Span) +
                           sizeof(Text)));
  NMM_TRY(budget_.scan(text_.bytes.size()));
  text_.ascii = is_ascii(text_.bytes);
  if (!text_.ascii) text_.characters = count_code_points(text_.bytes);
  text_.markup = markup;
  return TextPtr(std::make_shared<const Text>(std::move(text_)));
}

Result<TextPtr> substring(Budget& budget, const TextPtr& text, size_t begin, size_t end) {
  if (begin == 0 && end == text->bytes.size()) return text;
  TextWriter writer(budget);
  writer.append(*text, begin, end);
  return writer.take(text->markup);
}

bool is_from_message(const Text& text, size_t at, size_t& hint) {
  while (hint < text.from_messages.size() && text.from_messages[hint].end <= at) ++hint;
  return hint < text.from_messages.size() && text.from_messages[hint].begin <= at;
}

size_t find_bytes(std::string_view text, std::string_view wanted, size_t from) {
  const void* const found =
      memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

Status charge_backward_search(Budget& budget, std::string_view text, std::string_view wanted) {
  NMM_TRY(budget.scan(text.size()));
  if (wanted.size() > text.size()) return {};
  // A step pays for comparing 64 times as many bytes as it pays for reading.
  return budget.scan((text.size() - wanted.size() + 1) * wanted.size() / 64);
}

}  // namespace neuronmm::text::jinja
