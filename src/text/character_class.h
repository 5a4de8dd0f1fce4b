#pragma once
// Classes of characters as the tokenizers library has them, which follows the standard library of
// Rust and its crates.

namespace neuronmm::text {

using CharacterClass = bool(char32_t);

bool is_numeric(char32_t code_point);         // char::is_numeric: general category N
bool is_punctuation(char32_t code_point);     // general category P, and all signs of ASCII
bool is_combining_mark(char32_t code_point);  // general category M
// \w of the regex crate: Alphabetic, M, Nd, Pc, Join_Control (Unicode Technical Standard 18).
bool is_word_character(char32_t code_point);

}  // namespace neuronmm::text
