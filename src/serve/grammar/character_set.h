#pragma once
// A set of Unicode characters as sorted ranges. Characters are scalar values, so surrogates are
// never in a set. Patterns (pattern_syntax.h) and string languages are made of these sets.

#include <cstdint>
#include <initializer_list>
#include <iterator>
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
  // Returns the characters of all ranges, which may overlap and be in any order. The time is
  // O(n log n), while adding n ranges one by one may take O(n^2).
  static CharacterSet of(std::vector<CharacterRange> ranges);

  void add(CharacterRange range);
  CharacterSet complement() const;
  bool contains(char32_t character) const;
  int64_t size() const { return std::ssize(ranges_); }  // in ranges
  bool empty() const { return ranges_.empty(); }
  // Returns the ranges in ascending order, with at least one character (or the surrogates) between
  // two of them.
  const std::vector<CharacterRange>& ranges() const& { return ranges_; }
  std::vector<CharacterRange> ranges() && { return std::move(ranges_); }

 private:
  std::vector<CharacterRange> ranges_;
};

}  // namespace neuronmm::grammar
