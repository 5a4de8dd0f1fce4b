#pragma once
// Characters become the bytes of UTF-8.

#include <map>
#include <utility>

#include "serve/grammar/character_set.h"
#include "serve/grammar/grammar.h"

namespace neuronmm::grammar {

// Edges for ranges of characters; what ends in the same way goes through the same positions.
class Utf8Edges {
 public:
  explicit Utf8Edges(Grammar& grammar) : grammar_(grammar) {}
  void add(PositionId from, CharacterRange range, PositionId to);

 private:
  struct Encoded {
    int length;
    uint8_t bytes[4];
  };
  static Encoded encode(char32_t character);
  void add_between(PositionId from, const Encoded& first, const Encoded& last, int index,
                   PositionId to);
  PositionId tail(PositionId to, int bytes);  // so many continuation bytes before `to`

  Grammar& grammar_;
  std::map<std::pair<PositionId, int>, PositionId> tails_;
};

}  // namespace neuronmm::grammar
