#include "serve/grammar/character_set.h"

#include <algorithm>

namespace neuronmm::grammar {
namespace {

constexpr CharacterRange kSurrogates = {0xD800, 0xDFFF};

}  // namespace

CharacterSet::CharacterSet(std::initializer_list<CharacterRange> ranges) {
  for (const CharacterRange range : ranges) add(range);
}

CharacterSet CharacterSet::all() { return CharacterSet({{0, kLastCharacter}}); }

CharacterSet CharacterSet::of(std::vector<CharacterRange> ranges) {
  std::ranges::sort(ranges, {}, &CharacterRange::first);
  CharacterSet set;
  for (const CharacterRange range : ranges) set.add(range);
  return set;
}

void CharacterSet::add(CharacterRange range) {
  if (range.first < kSurrogates.first && range.last > kSurrogates.last) {
    add({range.first, kSurrogates.first - 1});
    add({kSurrogates.last + 1, range.last});
    return;
  }
  if (range.first >= kSurrogates.first && range.first <= kSurrogates.last)
    range.first = kSurrogates.last + 1;
  if (range.last >= kSurrogates.first && range.last <= kSurrogates.last)
    range.last = kSurrogates.first - 1;
  if (range.first > range.last) return;
  // The ranges from `begin` to `end` touch the new one.
  const auto begin = std::ranges::partition_point(
      ranges_, [&](const CharacterRange& other) { return other.last + 1 < range.first; });
  auto end = begin;
  for (; end != ranges_.end() && end->first <= range.last + 1; ++end) {
    range.first = std::min(range.first, end->first);
    range.last = std::max(range.last, end->last);
  }
  if (begin == end) {
    ranges_.insert(begin, range);
  } else {
    *begin = range;
    ranges_.erase(begin + 1, end);
  }
}

CharacterSet CharacterSet::complement() const {
  CharacterSet result;
  char32_t next = 0;
  for (const CharacterRange range : ranges_) {
    if (range.first > next) result.add({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCharacter) result.add({next, kLastCharacter});
  return result;
}

bool CharacterSet::contains(char32_t character) const {
  const auto range = std::ranges::partition_point(
      ranges_, [&](const CharacterRange& other) { return other.last < character; });
  return range != ranges_.end() && range->first <= character;
}

}  // namespace neuronmm::grammar
