#pragma once
// A text that knows which of its bytes came from messages: they are never special tokens.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja/budget.h"

namespace neuronmm::text::jinja {

// A stretch of a text, in bytes.
struct Span {
  size_t begin = 0, end = 0;
  bool operator==(const Span&) const = default;
};

struct Text {
  std::string bytes;
  std::vector<Span> said;  // sorted, apart from each other, none empty
  bool ascii = true;       // a character's index is its byte
  bool markup = false;     // HTML already (the filters `safe` and `escape`), a type of its own

  size_t length() const;               // in characters
  size_t byte_of(size_t index) const;  // of a character
  size_t index_of(size_t byte) const;  // of the character that begins there
};
using TextPtr = std::shared_ptr<const Text>;

// A text from pieces. Past the budget's bytes nothing more is kept, and take() is an error.
class TextWriter {
 public:
  explicit TextWriter(Budget& budget) : budget_(budget), limit_(budget.remaining_bytes()) {}
  TextWriter(Budget& budget, size_t limit) : budget_(budget), limit_(limit) {}

  void append(std::string_view bytes, bool said = false);
  void append(const Text& text) { append(text, 0, text.bytes.size()); }
  // The bytes [begin, end) of `text`.
  void append(const Text& text, size_t begin, size_t end);
  void append(char32_t c, size_t count);

  size_t size() const { return text_.bytes.size(); }
  bool full() const { return full_; }
  Result<TextPtr> take(bool markup = false);

 private:
  bool fits(size_t more);
  void mark_said(size_t begin, size_t end);

  Budget& budget_;
  size_t limit_;
  Text text_;
  bool full_ = false;
};

// The bytes [begin, end); the same text when they are all of it.
Result<TextPtr> part(Budget& budget, const TextPtr& text, size_t begin, size_t end);
// Whether the byte at `at` came from a message. `hint` makes going forward through a text cheap: 0
// at first, then what the last call left.
bool is_said(const Text& text, size_t at, size_t& hint);

}  // namespace neuronmm::text::jinja
