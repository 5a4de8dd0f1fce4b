#pragma once
// A text that knows which of its bytes come from messages, because such bytes are never special
// tokens. All functions of this folder that make texts keep this knowledge.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja/budget.h"

namespace neuronmm::text::jinja {

// A range of bytes in a text.
struct Span {
  size_t begin = 0, end = 0;
  bool operator==(const Span&) const = default;
};

// An immutable string value of a template, in UTF-8.
struct Text {
  std::string bytes;
  // The ranges that come from messages. They are sorted, disjoint and not empty.
  std::vector<Span> from_messages;
  // True if all bytes are ASCII, so that the index of a character is that of its byte.
  bool ascii = true;
  // True if the text is HTML (filters `safe` and `escape`), which Python keeps as another type.
  bool markup = false;
  // The number of characters if the text is not ASCII. Templates may ask for it again and again, so
  // TextWriter counts them once.
  size_t characters = 0;

  // Returns the number of characters.
  size_t length() const;
  // Returns the byte at which a character begins.
  size_t byte_of(size_t index) const;
  // Returns the index of the character that begins at a byte.
  size_t index_of(size_t byte) const;
};
using TextPtr = std::shared_ptr<const Text>;

// Builds a text from pieces. Nothing is appended beyond the budget, and take() then fails.
class TextWriter {
 public:
  explicit TextWriter(Budget& budget) : budget_(budget), limit_(budget.remaining_bytes()) {}
  TextWriter(Budget& budget, size_t limit) : budget_(budget), limit_(limit) {}

  void append(std::string_view bytes, bool from_messages = false);
  void append(const Text& text) { append(text, 0, text.bytes.size()); }
  // Appends the bytes [begin, end) of `text`.
  void append(const Text& text, size_t begin, size_t end);
  void append(char32_t c, size_t count);

  size_t size() const { return text_.bytes.size(); }
  bool full() const { return full_; }
  // Returns the text and charges its memory to the budget.
  Result<TextPtr> take(bool markup = false);

 private:
  bool fits(size_t more);
  void mark_from_messages(size_t begin, size_t end);

  Budget& budget_;
  size_t limit_;
  Text text_;
  bool full_ = false;
};

// Returns the bytes [begin, end), or the same text if that is all of it.
Result<TextPtr> substring(Budget& budget, const TextPtr& text, size_t begin, size_t end);
// Returns whether the byte at `at` comes from a message. `hint` makes a forward scan cheap: pass 0
// at first, and then the value that the last call left.
bool is_from_message(const Text& text, size_t at, size_t& hint);

// Returns where `wanted` first occurs at byte `from` or later, or npos. The time is linear for all
// texts, unlike that of std::string::find, because a template may choose the worst ones.
size_t find_bytes(std::string_view text, std::string_view wanted, size_t from = 0);
// Charges a search with std::string::rfind, which may compare all of `wanted` at every byte of
// `text`.
Status charge_backward_search(Budget& budget, std::string_view text, std::string_view wanted);

}  // namespace neuronmm::text::jinja
