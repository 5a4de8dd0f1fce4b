#pragma once
// The decoder steps of tokenizer.json, as the tokenizers library runs them. decoder_json.cc makes a
// Decoder of them.

#include <string>

#include "text/tokenizer/decoder.h"
#include "text/unicode/replacement.h"

namespace neuronmm::text {

Decoder::Step fuse_step();  // Joins all tokens into one.
// Replaces `replacement` ("▁") by a space. With `prepended`, the first token loses it instead.
Decoder::Step metaspace_step(const std::string& replacement, bool prepended);
// Decodes adjacent byte tokens ("<0x0A>") as one text. If their bytes are not UTF-8, each of them
// becomes U+FFFD. A stream emits characters as soon as they are complete; from the first byte that
// cannot continue a character on, it emits U+FFFD.
Decoder::Step byte_fallback_step();
// Replaces the characters of a token by the bytes that they spell (byte_level.h), and joins all
// tokens. A token with a character that spells no byte keeps its text. As the last step it also
// emits bytes that are not UTF-8; before other steps, U+FFFD replaces them.
Decoder::Step byte_level_step();
// Removes up to `start` copies of a character from the start of a token and up to `stop` copies
// from its end.
Decoder::Step strip_step(const std::string& character, int64_t start, int64_t stop);
// Replaces the matches of a pattern in every token.
Decoder::Step replace_step(const Replacement& replacement);
// Decodes tokens with a suffix that marks the end of a word. `with_space` replaces the suffix by a
// space, and `with_nothing` removes it from the last token.
Decoder::Step bpe_step(const Replacement& with_space, const Replacement& with_nothing);

}  // namespace neuronmm::text
