#pragma once
// A set of Unicode characters (scalar values: no surrogates) as sorted ranges.

#include <initializer_list>
#include <utility>
#include <vector>

namespace neuronmm::grammar {

inline constexpr char32_t kLastCharacter = 0x10FFFF;

struct CharacterRange {
  char32_t first, last;
  bool operator==(const CharacterRange&) const = default;
};

class CharacterSet {
 public:
  CharacterSet() = default;
  CharacterSet(std::initializer_list<CharacterRange> ranges);
  static CharacterSet all();

  void add(CharacterRange range);
  void add(const CharacterSet& other);
  CharacterSet complement() const;
  bool contains(char32_t character) const;
  bool empty() const { return ranges_.empty(); }
  // Disjoint, not touching, ascending.
  const std::vector<CharacterRange>& ranges() const& { return ranges_; }
  std::vector<CharacterRange> ranges() && { return std::move(ranges_); }

 private:
  std::vector<CharacterRange> ranges_;
};

}  // namespace neuronmm::grammar
