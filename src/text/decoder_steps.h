#pragma once
// The decoder steps of tokenizer.json, as the tokenizers library runs them.

#include <string>

#include "text/decoder.h"
#include "text/replacement.h"

namespace neuronmm::text {

Decoder::Step fuse_step();  // joins all tokens
Decoder::Step metaspace_step(const std::string& replacement, bool prepended);
// Byte tokens ("<0x0A>") side by side are one text, or U+FFFD for each of them if that is no UTF-8.
// A stream gives its characters as they are complete, and U+FFFD from the first byte on that
// cannot continue them.
Decoder::Step byte_fallback_step();
// The bytes that the characters of a token stand for (byte_level.h); a token with others is its
// text. All tokens are joined. As the last step it leaves bytes that are no UTF-8 as they are.
Decoder::Step byte_level_step();
// At most so many of one character at the start and at the end of a token.
Decoder::Step strip_step(const std::string& character, int64_t start, int64_t stop);
Decoder::Step replace_step(const Replacement& replacement);
// `suffix` ends a word: a space stands there, and nothing after the last token.
Decoder::Step bpe_step(const Replacement& with_space, const Replacement& with_nothing);

}  // namespace neuronmm::text
