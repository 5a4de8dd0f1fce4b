#pragma once
// The bytes that the tokens of a byte-level vocabulary spell (byte_level.h). Encoding finds words
// by them, and decoding joins them.

#include <string_view>
#include <vector>

#include "text/tokenizer/text_arena.h"
#include "text/tokenizer/token_id.h"
#include "text/tokenizer/vocabulary.h"

namespace neuronmm::text {

// The bytes by id.
class SpelledBytes {
 public:
  // No token spells bytes.
  SpelledBytes() = default;
  // The vocabulary must outlive the object, because a token that spells itself is not copied.
  explicit SpelledBytes(const Vocabulary& vocabulary);

  // Returns the bytes. The pointer of the result is null if the token's text spells no bytes.
  std::string_view of(TokenId id) const {
    const auto i = static_cast<size_t>(id);
    return i < bytes_.size() ? bytes_[i] : std::string_view();
  }

 private:
  TextArena texts_;
  std::vector<std::string_view> bytes_;
};

}  // namespace neuronmm::text
