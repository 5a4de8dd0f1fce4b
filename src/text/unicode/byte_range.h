#pragma once
// Declares a range of bytes in a text. Tokenization uses it to mark the parts of a prompt that a
// user wrote, so that "<|eot_id|>" in them is not taken for a token.
//
// apply_chat_template() (chat_template.h) returns such ranges. EncodeOptions::literal
// (tokenizer/tokenizer.h) passes them to the encoder, which searches no added tokens in them.

#include <cstddef>

namespace neuronmm::text {

// The bytes from `begin` up to but not including `end`. Nothing checks that begin <= end or that
// the range lies in its text. A range may begin or end inside a UTF-8 character.
struct ByteRange {
  size_t begin = 0, end = 0;
  bool operator==(const ByteRange&) const = default;
};

}  // namespace neuronmm::text
