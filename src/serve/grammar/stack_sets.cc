#include "serve/grammar/stack_sets.h"

#include <algorithm>
#include <utility>

namespace neuronmm::grammar {
namespace {

constexpr uint64_t kHashFactor = 0x9E3779B97F4A7C15u;

uint64_t hash(const std::vector<Frame>& frames, bool has_empty_stack) {
  uint64_t value = has_empty_stack ? 1 : 0;
  for (const Frame& frame : frames) {
    const uint64_t word =
        static_cast<uint64_t>(frame.top) << 32 | static_cast<uint32_t>(frame.below);
    value = (value ^ word) * kHashFactor;
    value ^= value >> 29;
  }
  return value;
}

// Memory per set in bytes without its frames, but with its share of the tables. Assumed.
constexpr int64_t kBytesPerEntry = 120;

}  // namespace

StackSets::StackSets() { (void)intern({}, true); }

StackSetId StackSets::intern(std::vector<Frame> frames, bool has_empty_stack) {
  const uint64_t key = hash(frames, has_empty_stack);
  const auto [begin, end] = by_hash_.equal_range(key);
  for (auto found = begin; found != end; ++found) {
    const Entry& entry = at(found->second);
    if (entry.has_empty_stack == has_empty_stack && entry.frames == frames) return found->second;
  }
  int32_t depth = 0;
  for (const Frame& frame : frames) depth = std::max(depth, this->depth(frame.below) + 1);
  bytes_ += kBytesPerEntry + std::ssize(frames) * static_cast<int64_t>(sizeof(Frame));
  const auto id = static_cast<StackSetId>(entries_.size());
  entries_.push_back({std::move(frames), has_empty_stack, depth});
  by_hash_.emplace(key, id);
  return id;
}

StackSetId StackSets::unite(StackSetId a, StackSetId b) {
  if (a == b) return a;
  if (a > b) std::swap(a, b);
  const uint64_t key = static_cast<uint64_t>(a) << 32 | static_cast<uint32_t>(b);
  if (const auto found = unions_.find(key); found != unions_.end()) return found->second;
  spend(std::ssize(frames(a)) + std::ssize(frames(b)));
  if (exceeds_work_limit()) return a;
  const std::vector<Frame> left = frames(a), right = frames(b);
  std::vector<Frame> frames;
  for (size_t i = 0, k = 0; i < left.size() || k < right.size();) {
    if (k == right.size() || (i < left.size() && left[i].top < right[k].top)) {
      frames.push_back(left[i++]);
    } else if (i == left.size() || right[k].top < left[i].top) {
      frames.push_back(right[k++]);
    } else {
      frames.push_back({left[i].top, unite(left[i].below, right[k].below)});
      ++i, ++k;
    }
  }
  if (exceeds_work_limit()) return a;
  const StackSetId id = intern(std::move(frames), has_empty_stack(a) || has_empty_stack(b));
  unions_.emplace(key, id);
  bytes_ += kBytesPerEntry / 2;
  return id;
}

}  // namespace neuronmm::grammar
