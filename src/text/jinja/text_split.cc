// Splits texts into parts, words and lines.

#include <algorithm>

#include "text/jinja/text_functions.h"
#include "text/jinja/unicode.h"

namespace neuronmm::text::jinja {
namespace {

std::vector<Span> split_at(const Text& text, const std::string& separator, int64_t count) {
  std::vector<Span> spans;
  size_t at = 0;
  for (; count != 0; --count) {
    const size_t found = find_bytes(text.bytes, separator, at);
    if (found == std::string::npos) break;
    spans.push_back({at, found});
    at = found + separator.size();
  }
  spans.push_back({at, text.bytes.size()});
  return spans;
}

std::vector<Span> split_at_from_right(const Text& text, const std::string& separator,
                                      int64_t count) {
  std::vector<Span> spans;
  size_t end = text.bytes.size();
  for (; count != 0 && end >= separator.size(); --count) {
    const size_t found = text.bytes.rfind(separator, end - separator.size());
    if (found == std::string::npos) break;
    spans.push_back({found + separator.size(), end});
    end = found;
  }
  spans.push_back({0, end});
  std::ranges::reverse(spans);
  return spans;
}

size_t skip(const Text& text, size_t at, bool spaces) {
  while (at < text.bytes.size() && is_space(decode(text.bytes, at).value) == spaces)
    at += decode(text.bytes, at).length;
  return at;
}

size_t skip_back(const Text& text, size_t end, bool spaces) {
  while (end > 0 && is_space(decode_before(text.bytes, end).value) == spaces)
    end -= decode_before(text.bytes, end).length;
  return end;
}

// The text that remains after the last split keeps the white space at its far end.
std::vector<Span> split_words(const Text& text, int64_t count) {
  std::vector<Span> spans;
  size_t at = skip(text, 0, true);
  for (; at < text.bytes.size() && count != 0; --count) {
    const size_t end = skip(text, at, false);
    spans.push_back({at, end});
    at = skip(text, end, true);
  }
  if (at < text.bytes.size()) spans.push_back({at, text.bytes.size()});
  return spans;
}

std::vector<Span> split_words_from_right(const Text& text, int64_t count) {
  std::vector<Span> spans;
  size_t end = skip_back(text, text.bytes.size(), true);
  for (; end > 0 && count != 0; --count) {
    const size_t begin = skip_back(text, end, false);
    spans.push_back({begin, end});
    end = skip_back(text, begin, true);
  }
  if (end > 0) spans.push_back({0, end});
  std::ranges::reverse(spans);
  return spans;
}

}  // namespace

Result<Value> substrings(Runtime& runtime, const TextPtr& text, const std::vector<Span>& spans,
                         List::Kind kind) {
  Values parts;
  for (const Span& span : spans) {
    NMM_ASSIGN(TextPtr piece, substring(runtime.budget, text, span.begin, span.end));
    parts.emplace_back(std::move(piece));
  }
  return make_list(runtime, std::move(parts), kind);
}

Result<Value> split(Runtime& runtime, const TextPtr& text, const Text* separator, int64_t count,
                    bool from_right) {
  NMM_TRY(runtime.budget.scan(text->bytes.size()));
  const auto most = static_cast<int64_t>(most_substrings(runtime.budget));
  if (count < 0 || count > most) count = most;
  if (separator == nullptr)
    return substrings(
        runtime, text,
        from_right ? split_words_from_right(*text, count) : split_words(*text, count));
  if (separator->bytes.empty()) return fail("split(): empty separator");
  if (from_right) NMM_TRY(charge_backward_search(runtime.budget, text->bytes, separator->bytes));
  return substrings(runtime, text,
                    from_right ? split_at_from_right(*text, separator->bytes, count)
                               : split_at(*text, separator->bytes, count));
}

size_t most_substrings(const Budget& budget) { return budget.remaining_bytes() / sizeof(Text); }

std::vector<Span> lines_of(const Text& text, bool keep_ends, size_t most) {
  std::vector<Span> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.bytes.size() && lines.size() <= most;) {
    const CodePoint c = decode(text.bytes, at);
    size_t next = at + c.length;
    if (is_line_end(c.value)) {
      if (c.value == '\r' && next < text.bytes.size() && text.bytes[next] == '\n') ++next;
      lines.push_back({begin, keep_ends ? next : at});
      begin = next;
    }
    at = next;
  }
  if (begin < text.bytes.size()) lines.push_back({begin, text.bytes.size()});
  return lines;
}

}  // namespace neuronmm::text::jinja
