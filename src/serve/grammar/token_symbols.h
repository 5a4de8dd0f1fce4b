#pragma once
// Lets a grammar name tokens, not only bytes. A grammar of GBNF may demand the token <think>, or
// any token except that one. Such a token is a symbol of the grammar. An automaton reads bytes, so
// a symbol is spelled with bytes that UTF-8 never uses. No text of a token has these bytes, because
// TokenVocabulary leaves such tokens out.
//
// Symbol 0 stands for all tokens that the grammar does not name, and symbol i for its i-th named
// token, counted from 1.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "serve/grammar/grammar.h"

namespace neuronmm::grammar {

inline constexpr uint8_t kFirstSymbolByte = 0xF8;
// The largest number of tokens that one grammar may name. A symbol has two digits of seven values.
inline constexpr size_t kMostNamedTokens = 48;

// Returns the bytes that spell a symbol, at most kMostNamedTokens.
std::string symbol_text(size_t symbol);
// Returns the bytes of all symbols.
ByteSet symbol_bytes();
// Returns whether a text has bytes that spell symbols.
bool has_symbol_bytes(std::string_view text);

}  // namespace neuronmm::grammar
