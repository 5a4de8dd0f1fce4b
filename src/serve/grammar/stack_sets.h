#pragma once
// Sets of call stacks. A stack is the positions at which calls will go on; a set is stored by what
// is on top: a sorted list of positions, each with the set of stacks below it. Equal sets have
// equal ids, and sets share what is below, so that exponentially many stacks take little room.

#include <compare>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "serve/grammar/grammar.h"

namespace neuronmm::grammar {

using StackSetId = int32_t;

struct Frame {
  PositionId top;
  StackSetId below;
  auto operator<=>(const Frame&) const = default;
};

class StackSets {
 public:
  StackSets();

  // The set whose only stack is empty.
  static constexpr StackSetId kBottom = 0;
  // Sorted by position, each once. With the empty stack too where `has_bottom`.
  StackSetId intern(std::vector<Frame> frames, bool has_bottom);
  StackSetId unite(StackSetId a, StackSetId b);

  const std::vector<Frame>& frames(StackSetId id) const { return at(id).frames; }
  bool has_bottom(StackSetId id) const { return at(id).has_bottom; }
  int32_t depth(StackSetId id) const { return at(id).depth; }  // of its deepest stack
  int64_t bytes() const { return bytes_; }

 private:
  struct Entry {
    std::vector<Frame> frames;
    bool has_bottom;
    int32_t depth;
  };
  const Entry& at(StackSetId id) const { return entries_[static_cast<size_t>(id)]; }

  std::vector<Entry> entries_;
  std::unordered_multimap<uint64_t, StackSetId> by_hash_;
  std::unordered_map<uint64_t, StackSetId> unions_;
  int64_t bytes_ = 0;
};

}  // namespace neuronmm::grammar
