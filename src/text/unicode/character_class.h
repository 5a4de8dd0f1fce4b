#pragma once
// The classes of characters by which pre-tokenizers and normalizers split and filter text. The
// classes are those of the tokenizers library, which uses Rust's standard library and crates.

namespace neuronmm::text {

using CharacterClass = bool(char32_t);

// General category N, as Rust's char::is_numeric.
bool is_numeric(char32_t code_point);
// General category P and all signs of ASCII.
bool is_punctuation(char32_t code_point);
// General category M.
bool is_combining_mark(char32_t code_point);
// \w of Rust's regex crate: Alphabetic, M, Nd, Pc and Join_Control (Unicode Technical Standard 18).
bool is_word_character(char32_t code_point);

}  // namespace neuronmm::text
