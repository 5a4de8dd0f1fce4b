#pragma once
// The kinds of normalizer steps that are no more than a function of the text.

#include <string>
#include <string_view>

namespace neuronmm::text {

// Each returns `text` (valid UTF-8), a part of it, or `storage`.

// Rust's str::to_lowercase without its rule for the final sigma: one character at a time.
std::string_view lowercase(std::string_view text, std::string& storage);
std::string_view strip_accents(std::string_view text, std::string& storage);  // no combining marks
// Empty text stays empty.
std::string_view prepend(std::string_view prefix, std::string_view text, std::string& storage);
// The alphabet of byte_level.h.
std::string_view spell_bytes(std::string_view text, std::string& storage);

}  // namespace neuronmm::text
