#include "serve/grammar/token_symbols.h"

#include <algorithm>

namespace neuronmm::grammar {
namespace {

constexpr uint8_t kPrefix = 0xFF;  // begins every symbol
constexpr size_t kDigitValues = kPrefix - kFirstSymbolByte;
static_assert(kMostNamedTokens < kDigitValues * kDigitValues);

}  // namespace

std::string symbol_text(size_t symbol) {
  const auto digit = [](size_t value) { return static_cast<char>(kFirstSymbolByte + value); };
  return {static_cast<char>(kPrefix), digit(symbol / kDigitValues), digit(symbol % kDigitValues)};
}

ByteSet symbol_bytes() {
  ByteSet bytes;
  for (size_t byte = kFirstSymbolByte; byte <= kPrefix; ++byte) bytes.set(byte);
  return bytes;
}

bool has_symbol_bytes(std::string_view text) {
  return std::ranges::any_of(text,
                             [](char c) { return static_cast<uint8_t>(c) >= kFirstSymbolByte; });
}

}  // namespace neuronmm::grammar
