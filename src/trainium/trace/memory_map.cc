#include "trainium/trace/memory_map.h"

#include <algorithm>

namespace neuronmm::trace {

MemoryMap::MemoryMap(int64_t capacity, int64_t size, int64_t unit, Released released)
    : capacity_(capacity),
      size_(size),
      unit_(unit),
      segments_(1),
      free_{{0, 0}},
      released_(std::move(released)) {}

size_t MemoryMap::segment_at(int64_t at) const {
  const auto behind = std::upper_bound(segments_.begin(), segments_.end(), at,
                                       [](int64_t a, const Segment& s) { return a < s.begin; });
  return static_cast<size_t>(behind - segments_.begin()) - 1;
}

void MemoryMap::add_free(const Segment& segment) {
  const std::pair key(segment.freed, segment.begin);
  free_.insert(std::upper_bound(free_.begin(), free_.end(), key), key);
}

void MemoryMap::drop_free(const Segment& segment) {
  const std::pair key(segment.freed, segment.begin);
  const auto at = std::lower_bound(free_.begin(), free_.end(), key);
  if (at != free_.end() && *at == key) free_.erase(at);
}

// When the whole range, which begins in that segment, became free; nothing where a part of it is
// taken.
std::optional<uint32_t> MemoryMap::freed(const MemoryRange& range, size_t segment) const {
  uint32_t last = 0;
  for (size_t i = segment; i < segments_.size(); ++i) {
    if (segments_[i].begin >= range.end) break;
    if (segments_[i].taken != 0) return std::nullopt;
    last = std::max(last, segments_[i].freed);
  }
  return last;
}

// The first place from `begin` on, and before `end`, that is not blocked.
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

// A place is as old as the newest of its segments. It begins with a free one, and none that became
// free later than the best place so far need be looked at.
std::vector<MemoryRange> MemoryMap::find(int64_t bytes, const Blocked& blocked) const {
  std::optional<MemoryRange> best;
  uint32_t best_freed = UINT32_MAX;
  for (const auto& [since, begin] : free_) {
    if (since >= best_freed) break;
    const size_t segment = segment_at(begin);
    const auto range = first_fit(begin, end_of(segment), bytes, blocked);
    const auto at = range ? freed(*range, segment) : std::nullopt;
    if (!at || *at >= best_freed) continue;
    best = range;
    best_freed = *at;
  }
  if (best) return {*best};
  return scattered(bytes, blocked);
}

// Free memory that lies in pieces is used in pieces. The compiler, which knows all tensors before
// it places the first, would have kept it together.
std::vector<MemoryRange> MemoryMap::scattered(int64_t bytes, const Blocked& blocked) const {
  std::vector<std::pair<uint32_t, MemoryRange>> free;
  for (size_t i = 0; i < segments_.size(); ++i) {
    if (segments_[i].taken != 0) continue;
    const int64_t last = std::min(end_of(i), capacity_) / unit_ * unit_;
    int64_t begin = (segments_[i].begin + unit_ - 1) / unit_ * unit_;
    while (begin < last) {
      const auto conflict = blocked ? blocked({begin, last}) : std::nullopt;
      const int64_t end = conflict ? std::max(conflict->begin, begin) / unit_ * unit_ : last;
      if (end > begin) free.push_back({segments_[i].freed, {begin, end}});
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

void MemoryMap::remember(Occupant who, int32_t more) {
  if (who == kNobody) return;
  if (references_.size() <= static_cast<size_t>(who)) {
    references_.resize(static_cast<size_t>(who) + 1);
  }
  references_[static_cast<size_t>(who)] += more;
  if (references_[static_cast<size_t>(who)] == 0) released_(who);
}

size_t MemoryMap::cut(int64_t at) {
  const size_t i = segment_at(at);
  if (segments_[i].begin == at) return i;
  Segment behind = segments_[i];
  behind.begin = at;
  if (behind.taken == 0) add_free(behind);
  for (const Occupant who : behind.who) remember(who, 1);
  segments_.insert(segments_.begin() + static_cast<std::ptrdiff_t>(i) + 1, behind);
  return i + 1;
}

const std::vector<MemoryMap::Piece>& MemoryMap::put(const std::vector<MemoryRange>& ranges,
                                                    Occupant who) {
  pieces_.clear();
  remember(who, 1);
  for (const MemoryRange& range : ranges) put(range, who);
  return pieces_;
}

// The segments of the range become one where all quarters are taken, so that the map stays short.
void MemoryMap::put(const MemoryRange& range, Occupant who) {
  const size_t first = cut(range.begin);
  const size_t end = range.end < size_ ? cut(range.end) : segments_.size();
  for (size_t i = first; i < end; ++i) {
    Segment& s = segments_[i];
    if (s.taken == 0) drop_free(s);
    Piece piece{.range = {s.begin, end_of(i), range.quarters}};
    for (size_t q = 0; q < kQuarters; ++q) {
      if ((range.quarters >> q & 1) == 0) continue;
      piece.before[q] = s.who[q];
      piece.taken = piece.taken || (s.taken >> q & 1) != 0;
      remember(who, 1);
      remember(s.who[q], -1);
      s.who[q] = who;
    }
    s.taken |= range.quarters;
    pieces_.push_back(piece);
  }
  if (range.quarters != kAllQuarters || end == first + 1) return;
  remember(who, -static_cast<int32_t>((end - first - 1) * kQuarters));
  segments_.erase(segments_.begin() + static_cast<std::ptrdiff_t>(first) + 1,
                  segments_.begin() + static_cast<std::ptrdiff_t>(end));
}

void MemoryMap::leave(const std::vector<MemoryRange>& ranges, Occupant who, uint32_t now) {
  for (const MemoryRange& range : ranges) {
    for (size_t i = segment_at(range.begin); i < segments_.size(); ++i) {
      Segment& s = segments_[i];
      if (s.begin >= range.end) break;
      const uint8_t before = s.taken;
      for (size_t q = 0; q < kQuarters; ++q) {
        if (s.who[q] == who) s.taken = static_cast<uint8_t>(s.taken & ~(1 << q));
      }
      if (before == s.taken) continue;
      s.freed = now;
      if (s.taken == 0) add_free(s);
    }
  }
  remember(who, -1);
}

}  // namespace neuronmm::trace
