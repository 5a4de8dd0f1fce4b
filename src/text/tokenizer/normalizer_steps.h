#pragma once
// Declares the steps of a normalizer that need nothing but the text. normalizer_json.cc puts them
// into a Normalizer when a tokenizer.json asks for Lowercase, StripAccents, Prepend or ByteLevel.
// The pre-tokenizer's step ByteLevel (rewrite_steps.cc) uses spell_bytes(), too.

#include <string>
#include <string_view>

namespace neuronmm::text {

// Every function writes its result to `storage` and returns a view of it. What `storage` held
// before is lost, so `text` must not lie in it. `text` must be valid UTF-8, except for
// spell_bytes(). No function fails.

// Lowers the case like Rust's str::to_lowercase, but one character at a time. The special rule for
// the final sigma is therefore not applied.
std::string_view lowercase(std::string_view text, std::string& storage);
// Removes all combining marks.
std::string_view strip_accents(std::string_view text, std::string& storage);
// Puts `prefix` before a text. Returns an empty text as it is, without writing to `storage`.
std::string_view prepend(std::string_view prefix, std::string_view text, std::string& storage);
// Replaces every byte by the character that stands for it in the vocabularies of byte-level BPE
// (byte_level.h).
std::string_view spell_bytes(std::string_view text, std::string& storage);

}  // namespace neuronmm::text
