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
  const auto touches = [&](const CharacterRange& other) {
    return other.first <= range.last + 1 && range.first <= other.last + 1;
  };
  const auto begin = std::find_if(ranges_.begin(), ranges_.end(), [&](const CharacterRange& other) {
    return touches(other) || other.first > range.last;
  });
  auto end = begin;
  for (; end != ranges_.end() && touches(*end); ++end) {
    range.first = std::min(range.first, end->first);
    range.last = std::max(range.last, end->last);
  }
  ranges_.insert(ranges_.erase(begin, end), range);
}

void CharacterSet::add(const CharacterSet& other) {
  for (const CharacterRange range : other.ranges_) add(range);
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
  return std::any_of(ranges_.begin(), ranges_.end(), [&](const CharacterRange& range) {
    return character >= range.first && character <= range.last;
  });
}

}  // namespace neuronmm::grammar
