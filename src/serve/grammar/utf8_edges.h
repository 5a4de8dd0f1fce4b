#pragma once
// Adds edges to a grammar that read characters as the bytes of UTF-8. JsonSyntax (json_syntax.h) is
// its user.

#include <map>
#include <utility>

#include "serve/grammar/character_set.h"
#include "serve/grammar/grammar.h"

namespace neuronmm::grammar {

// Adds edges for ranges of characters. Ranges with the same continuation bytes before the same
// target share positions.
class Utf8Edges {
 public:
  explicit Utf8Edges(Grammar& grammar) : grammar_(grammar) {}
  // Adds edges that read one character of the range. Surrogates in the range are left out.
  void add(PositionId from, CharacterRange range, PositionId to);

 private:
  struct Encoded {
    int length;
    uint8_t bytes[4];
  };
  static Encoded encode(char32_t character);
  void add_between(PositionId from, const Encoded& first, const Encoded& last, int index,
                   PositionId to);
  // Returns a position from which any `bytes` continuation bytes lead to `to`.
  PositionId tail(PositionId to, int bytes);

  Grammar& grammar_;
  std::map<std::pair<PositionId, int>, PositionId> tails_;
};

}  // namespace neuronmm::grammar
