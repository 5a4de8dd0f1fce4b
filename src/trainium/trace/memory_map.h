#pragma once
// Who lies where in SBUF or PSUM, and who lay there before. Tensors whose address is not given take
// the memory that has been free longest, as the compiler's rotating allocation does, so that what
// comes next need not wait for what was there last.

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace neuronmm::trace {

// Partitions are told apart in quarters of 32, the least that an access may start at.
inline constexpr size_t kQuarters = 4;
inline constexpr uint8_t kAllQuarters = 0xf;

struct MemoryRange {
  int64_t begin = 0, end = 0;  // bytes per partition
  uint8_t quarters = kAllQuarters;
};

class MemoryMap {
 public:
  using Occupant = int32_t;  // a small number that its owner uses again once it is released
  static constexpr Occupant kNobody = -1;

  // A part of a range, and who was there.
  struct Piece {
    MemoryRange range;
    std::array<Occupant, kQuarters> before{kNobody, kNobody, kNobody, kNobody};
    bool taken = false;  // one of them has not left
  };
  // released(who): no part of the memory remembers `who`, and `who` has left.
  using Released = std::function<void(Occupant)>;
  // blocked(range): a range that somebody with an address will need, if it overlaps.
  using Blocked = std::function<std::optional<MemoryRange>(const MemoryRange&)>;

  // `capacity`: what is given away without an address, of `size` bytes. Places without an address
  // begin at multiples of `unit`.
  MemoryMap(int64_t capacity, int64_t size, int64_t unit, Released released);

  // Where `bytes` fit, longest free first; several ranges where no free one is large enough, and
  // none where all together are not. `blocked` may be null.
  std::vector<MemoryRange> find(int64_t bytes, const Blocked& blocked) const;
  // Puts somebody there. What is returned holds until the next put(), and so do those who were
  // there.
  const std::vector<Piece>& put(const std::vector<MemoryRange>& ranges, Occupant who);
  // Its last access has been, at `now` > 0.
  void leave(const std::vector<MemoryRange>& ranges, Occupant who, uint32_t now);

 private:
  using SegmentId = int32_t;
  static constexpr SegmentId kNone = -1, kFirst = 0;  // the first begins at 0 and is never erased

  struct Segment {
    int64_t begin = 0;
    std::array<Occupant, kQuarters> who{kNobody, kNobody, kNobody, kNobody};
    uint8_t taken = 0;   // quarters
    uint32_t freed = 0;  // when the last of them left; 0: never used
    SegmentId next = kNone;
    SegmentId older = kNone, newer = kNone;  // of those that are free
  };
  Segment& segment(SegmentId id) { return segments_[static_cast<size_t>(id)]; }
  const Segment& segment(SegmentId id) const { return segments_[static_cast<size_t>(id)]; }
  int64_t end_of(const Segment& s) const { return s.next == kNone ? size_ : segment(s.next).begin; }
  SegmentId segment_at(int64_t at) const;
  SegmentId cut(SegmentId from, int64_t at);  // the segment that begins there, which it makes
  void erase_behind(SegmentId first, SegmentId end);
  std::optional<uint32_t> freed(const MemoryRange& range, SegmentId first) const;
  std::optional<MemoryRange> first_fit(int64_t begin, int64_t end, int64_t bytes,
                                       const Blocked& blocked) const;
  std::vector<MemoryRange> scattered(int64_t bytes, const Blocked& blocked) const;
  bool free_longer(SegmentId a, SegmentId b) const;
  void add_free(SegmentId id, SegmentId near);
  void drop_free(SegmentId id);
  void remember(Occupant who, int32_t more);
  void put(const MemoryRange& range, Occupant who);

  int64_t capacity_, size_, unit_;
  // Two lists run through the segments: all of them by their addresses, without gaps, and those
  // that are free by the time when they became so, then by address. A tensor's place is cut out of
  // the oldest and comes back as the newest, so that in lists its neighbours are at hand, where
  // sorted arrays would be searched and moved several times for each tensor.
  std::vector<Segment> segments_;
  std::vector<SegmentId> spare_;        // of segments_, not in use
  std::vector<SegmentId> starting_at_;  // by address
  SegmentId oldest_ = kFirst, newest_ = kFirst;
  std::vector<Piece> pieces_;
  std::vector<int32_t> references_;  // by occupant: quarters of segments, and one until it leaves
  Released released_;
};

}  // namespace neuronmm::trace
