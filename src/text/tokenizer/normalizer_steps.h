#pragma once
// The normalizer steps that need nothing but the text. normalizer_json.cc puts them into a
// Normalizer.

#include <string>
#include <string_view>

namespace neuronmm::text {

// Every function returns `text` (valid UTF-8), a part of it, or `storage`.

// Lowers the case like Rust's str::to_lowercase, but one character at a time. The special rule for
// the final sigma is therefore not applied.
std::string_view lowercase(std::string_view text, std::string& storage);
// Removes all combining marks.
std::string_view strip_accents(std::string_view text, std::string& storage);
// Puts `prefix` before a text that is not empty.
std::string_view prepend(std::string_view prefix, std::string_view text, std::string& storage);
// Spells every byte with a character of byte_level.h.
std::string_view spell_bytes(std::string_view text, std::string& storage);

}  // namespace neuronmm::text
