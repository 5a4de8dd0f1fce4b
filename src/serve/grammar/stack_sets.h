#pragma once
// Sets of call stacks, which are the states of an Automaton. A stack holds the positions at which
// the open calls will continue. A set is stored as a sorted list of its top positions, each with
// the set of the stacks below it. Equal sets have equal ids. Sets share the sets below them, so
// that exponentially many stacks take little memory. Nothing is deleted before the whole object is.

#include <compare>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "serve/grammar/grammar.h"

namespace neuronmm::grammar {

using StackSetId = int32_t;

// All stacks of a set that have the position `top` on top.
struct Frame {
  PositionId top;
  StackSetId below;
  auto operator<=>(const Frame&) const = default;
};

class StackSets {
 public:
  StackSets();

  // The set that holds only the empty stack.
  static constexpr StackSetId kOnlyEmptyStack = 0;
  // Returns the set with these frames, which must be sorted by position without duplicates. The set
  // also holds the empty stack if `has_empty_stack` is true.
  StackSetId intern(std::vector<Frame> frames, bool has_empty_stack);
  // Returns a set of both, which is wrong if exceeds_work_limit() returns true afterwards.
  StackSetId unite(StackSetId a, StackSetId b);

  // Work is counted in stacks that are looked at, about 0.1 us each. limit_work() sets how much may
  // follow until the next call.
  void limit_work(int64_t more) { work_limit_ = work_ + more; }
  void spend(int64_t work) { work_ += work; }
  bool exceeds_work_limit() const { return work_ > work_limit_; }
  int64_t work() const { return work_; }

  const std::vector<Frame>& frames(StackSetId id) const { return at(id).frames; }
  bool has_empty_stack(StackSetId id) const { return at(id).has_empty_stack; }
  int32_t depth(StackSetId id) const { return at(id).depth; }  // the depth of the deepest stack
  int64_t bytes() const { return bytes_; }                     // an estimate of the memory in use

 private:
  struct Entry {
    std::vector<Frame> frames;
    bool has_empty_stack;
    int32_t depth;
  };
  const Entry& at(StackSetId id) const { return entries_[static_cast<size_t>(id)]; }

  std::vector<Entry> entries_;
  std::unordered_multimap<uint64_t, StackSetId> by_hash_;
  std::unordered_map<uint64_t, StackSetId> unions_;
  int64_t bytes_ = 0, work_ = 0;
  int64_t work_limit_ = std::numeric_limits<int64_t>::max();
};

}  // namespace neuronmm::grammar
