#include "trainium/trace/memory_map.h"

#include <algorithm>

namespace neuronmm::trace {

MemoryMap::MemoryMap(int64_t capacity, int64_t size, int64_t unit, Released released)
    : capacity_(capacity),
      size_(size),
      unit_(unit),
      segments_(1),
      starting_at_(static_cast<size_t>(size), kNone),
      released_(std::move(released)) {
  starting_at_[0] = kFirst;
}

// Returns the segment that holds an address. A segment nearly always begins there.
MemoryMap::SegmentId MemoryMap::segment_at(int64_t at) const {
  SegmentId id = starting_at_[static_cast<size_t>(at)];
  if (id != kNone) return id;
  for (id = kFirst; end_of(segment(id)) <= at;) id = segment(id).next;
  return id;
}

bool MemoryMap::free_longer(SegmentId a, SegmentId b) const {
  const Segment &x = segment(a), &y = segment(b);
  return x.freed != y.freed ? x.freed < y.freed : x.begin < y.begin;
}

// Adds a segment to the list of free segments. `near` is a free segment near its place in the list.
void MemoryMap::add_free(SegmentId id, SegmentId near) {
  SegmentId older = near;
  while (older != kNone && free_longer(id, older)) older = segment(older).older;
  SegmentId newer = older == kNone ? oldest_ : segment(older).newer;
  while (newer != kNone && free_longer(newer, id)) older = newer, newer = segment(newer).newer;
  segment(id).older = older;
  segment(id).newer = newer;
  (older == kNone ? oldest_ : segment(older).newer) = id;
  (newer == kNone ? newest_ : segment(newer).older) = id;
}

void MemoryMap::drop_free(SegmentId id) {
  const SegmentId older = segment(id).older, newer = segment(id).newer;
  (older == kNone ? oldest_ : segment(older).newer) = newer;
  (newer == kNone ? newest_ : segment(newer).older) = older;
}

// Returns when the whole range became free, or nothing if a part of it is taken. The range begins
// in segment `first`.
std::optional<uint32_t> MemoryMap::freed(const MemoryRange& range, SegmentId first) const {
  uint32_t last = 0;
  for (SegmentId id = first; id != kNone; id = segment(id).next) {
    const Segment& s = segment(id);
    if (s.begin >= range.end) break;
    if (s.taken != 0) return std::nullopt;
    last = std::max(last, s.freed);
  }
  return last;
}

// Returns the first place that is not blocked and begins in [begin, end).
std::optional<MemoryRange> MemoryMap::first_fit(int64_t begin, int64_t end, int64_t bytes,
                                                const Blocked& blocked) const {
  begin = (begin + unit_ - 1) / unit_ * unit_;
  while (begin < end && begin + bytes <= capacity_) {
    const MemoryRange range{begin, begin + bytes};
    const auto conflict = blocked ? blocked(range) : std::nullopt;
    if (!conflict) return range;
    begin = (std::max(conflict->end, begin + 1) + unit_ - 1) / unit_ * unit_;
  }
  return std::nullopt;
}

// A place is as old as its newest segment and begins with a free one. Segments that became free
// later than the best place so far are not looked at.
std::vector<MemoryRange> MemoryMap::find(int64_t bytes, const Blocked& blocked) const {
  std::optional<MemoryRange> best;
  uint32_t best_freed = UINT32_MAX;
  for (SegmentId id = oldest_; id != kNone; id = segment(id).newer) {
    const Segment& s = segment(id);
    if (s.freed >= best_freed) break;
    const auto range = first_fit(s.begin, end_of(s), bytes, blocked);
    const auto at = range ? freed(*range, id) : std::nullopt;
    if (!at || *at >= best_freed) continue;
    best = range;
    best_freed = *at;
  }
  if (best && (bytes <= capacity_ / 4 || best_freed == segment(oldest_).freed)) return {*best};
  return scattered(bytes, blocked);
}

// Uses free memory in several pieces, the longest free first. The compiler, which knows all tensors
// before it places the first, places the tiles of a large tensor apart. So a block of which two do
// not fit waits only for the part of the block before it whose memory it needs. On trn2 the device
// overlaps such loads with the matmuls (docs/measurements/predictions_chipboost.md).
std::vector<MemoryRange> MemoryMap::scattered(int64_t bytes, const Blocked& blocked) const {
  std::vector<std::pair<uint32_t, MemoryRange>> free;
  for (SegmentId id = kFirst; id != kNone; id = segment(id).next) {
    const Segment& s = segment(id);
    if (s.taken != 0) continue;
    const int64_t last = std::min(end_of(s), capacity_) / unit_ * unit_;
    int64_t begin = (s.begin + unit_ - 1) / unit_ * unit_;
    while (begin < last) {
      const auto conflict = blocked ? blocked({begin, last}) : std::nullopt;
      const int64_t end = conflict ? std::max(conflict->begin, begin) / unit_ * unit_ : last;
      if (end > begin) free.push_back({s.freed, {begin, end}});
      begin = conflict ? (std::max(conflict->end, begin + 1) + unit_ - 1) / unit_ * unit_ : last;
    }
  }
  std::stable_sort(free.begin(), free.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<MemoryRange> out;
  for (const auto& [since, range] : free) {
    out.push_back({range.begin, std::min(range.end, range.begin + bytes)});
    bytes -= out.back().end - out.back().begin;
    if (bytes == 0) return out;
  }
  return {};
}

void MemoryMap::count_references(Occupant occupant, int32_t change) {
  if (occupant == kNoOccupant) return;
  if (references_.size() <= static_cast<size_t>(occupant)) {
    references_.resize(static_cast<size_t>(occupant) + 1);
  }
  references_[static_cast<size_t>(occupant)] += change;
  if (references_[static_cast<size_t>(occupant)] == 0) released_(occupant);
}

MemoryMap::SegmentId MemoryMap::cut(SegmentId from, int64_t at) {
  while (end_of(segment(from)) <= at) from = segment(from).next;
  if (segment(from).begin == at) return from;
  if (unused_.empty()) {
    unused_.push_back(static_cast<SegmentId>(segments_.size()));
    segments_.emplace_back();
  }
  const SegmentId upper = unused_.back();
  unused_.pop_back();
  segment(upper) = segment(from);
  segment(upper).begin = at;
  segment(from).next = upper;
  starting_at_[static_cast<size_t>(at)] = upper;
  if (segment(upper).taken == 0) add_free(upper, from);
  for (const Occupant occupant : segment(upper).occupants) count_references(occupant, 1);
  return upper;
}

// Merges the segments between `first` and `end` into `first`.
void MemoryMap::merge_segments(SegmentId first, SegmentId end) {
  for (SegmentId id = segment(first).next; id != end; id = segment(id).next) {
    starting_at_[static_cast<size_t>(segment(id).begin)] = kNone;
    unused_.push_back(id);
  }
  segment(first).next = end;
}

const std::vector<MemoryMap::Piece>& MemoryMap::occupy(const std::vector<MemoryRange>& ranges,
                                                       Occupant occupant) {
  pieces_.clear();
  count_references(occupant, 1);
  for (const MemoryRange& range : ranges) occupy(range, occupant);
  return pieces_;
}

// Merges the segments of the range if the occupant takes all quarters, so that the map stays short.
void MemoryMap::occupy(const MemoryRange& range, Occupant occupant) {
  const SegmentId first = cut(segment_at(range.begin), range.begin);
  const SegmentId end = range.end < size_ ? cut(first, range.end) : kNone;
  int32_t parts = 0;
  for (SegmentId id = first; id != end; id = segment(id).next) {
    Segment& s = segment(id);
    if (s.taken == 0) drop_free(id);
    Piece piece{.range = {s.begin, end_of(s), range.quarters}};
    for (size_t q = 0; q < kQuarters; ++q) {
      if ((range.quarters >> q & 1) == 0) continue;
      piece.before[q] = s.occupants[q];
      piece.taken = piece.taken || (s.taken >> q & 1) != 0;
      count_references(occupant, 1);
      count_references(s.occupants[q], -1);
      s.occupants[q] = occupant;
    }
    s.taken |= range.quarters;
    pieces_.push_back(piece);
    ++parts;
  }
  if (range.quarters != kAllQuarters || parts == 1) return;
  count_references(occupant, -(parts - 1) * static_cast<int32_t>(kQuarters));
  merge_segments(first, end);
}

void MemoryMap::vacate(const std::vector<MemoryRange>& ranges, Occupant occupant, uint32_t now) {
  for (const MemoryRange& range : ranges) {
    for (SegmentId id = segment_at(range.begin); id != kNone; id = segment(id).next) {
      Segment& s = segment(id);
      if (s.begin >= range.end) break;
      const uint8_t before = s.taken;
      for (size_t q = 0; q < kQuarters; ++q) {
        if (s.occupants[q] == occupant) s.taken = static_cast<uint8_t>(s.taken & ~(1 << q));
      }
      if (before == s.taken) continue;
      s.freed = now;
      if (s.taken == 0) add_free(id, newest_);
    }
  }
  count_references(occupant, -1);
}

}  // namespace neuronmm::trace
