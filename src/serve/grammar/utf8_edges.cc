#include "serve/grammar/utf8_edges.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "text/unicode/utf8.h"

namespace neuronmm::grammar {
namespace {

constexpr uint8_t kFirstContinuation = 0x80, kLastContinuation = 0xBF;
constexpr char32_t kLastOfLength[] = {0x7F, 0x7FF, 0xFFFF, kLastCharacter};

}  // namespace

Utf8Edges::Encoded Utf8Edges::encode(char32_t character) {
  std::string text;
  text::append_utf8(character, text);
  Encoded encoded{static_cast<int>(text.size()), {}};
  std::memcpy(encoded.bytes, text.data(), std::min(text.size(), sizeof(encoded.bytes)));
  return encoded;
}

void Utf8Edges::add(PositionId from, CharacterRange range, PositionId to) {
  const CharacterSet parts = {range};  // leaves out surrogates
  for (const CharacterRange part : parts.ranges()) {
    char32_t first = part.first;
    for (const char32_t border : kLastOfLength) {
      if (first > border || first > part.last) continue;
      const char32_t last = std::min(border, part.last);
      add_between(from, encode(first), encode(last), 0, to);
      first = last + 1;
    }
  }
}

// Adds edges for all characters from `first` to `last`, which have the same number of bytes, from
// byte `index` on. If the bytes at `index` differ, any continuation may follow a byte between them.
// The bytes of `first` and `last` themselves are followed by the remaining part of the range.
void Utf8Edges::add_between(PositionId from, const Encoded& first, const Encoded& last, int index,
                            PositionId to) {
  const int rest = first.length - index - 1;
  const auto all_are = [&](const Encoded& character, uint8_t byte) {
    return std::all_of(character.bytes + index + 1, character.bytes + character.length,
                       [&](uint8_t b) { return b == byte; });
  };
  const uint8_t low = first.bytes[index], high = last.bytes[index];
  const bool from_lowest = all_are(first, kFirstContinuation);
  const bool to_highest = all_are(last, kLastContinuation);
  if (from_lowest && to_highest) return grammar_.add_bytes(from, low, high, tail(to, rest));
  const auto follow = [&](const Encoded& a, const Encoded& b) {
    const PositionId next = grammar_.add_position();
    grammar_.add_bytes(from, a.bytes[index], a.bytes[index], next);
    add_between(next, a, b, index + 1, to);
  };
  if (low == high) return follow(first, last);
  const auto full = static_cast<uint8_t>(low + (from_lowest ? 0 : 1));
  const auto full_end = static_cast<uint8_t>(high - (to_highest ? 0 : 1));
  if (!from_lowest) {
    Encoded end = first;
    for (int i = index + 1; i < end.length; ++i) end.bytes[i] = kLastContinuation;
    follow(first, end);
  }
  if (full <= full_end) grammar_.add_bytes(from, full, full_end, tail(to, rest));
  if (!to_highest) {
    Encoded begin = last;
    for (int i = index + 1; i < begin.length; ++i) begin.bytes[i] = kFirstContinuation;
    follow(begin, last);
  }
}

PositionId Utf8Edges::tail(PositionId to, int bytes) {
  if (bytes == 0) return to;
  const auto found = tails_.find({to, bytes});
  if (found != tails_.end()) return found->second;
  const PositionId position = grammar_.add_position();
  tails_[{to, bytes}] = position;
  grammar_.add_bytes(position, kFirstContinuation, kLastContinuation, tail(to, bytes - 1));
  return position;
}

}  // namespace neuronmm::grammar
