#pragma once
// Records which tensor lies where in SBUF or PSUM, and which one lay there before. Tensors without
// a given address take the memory that has been free longest, as the compiler's rotating allocation
// does. New tensors then need not wait for the most recent ones. TensorMemory (tensor_memory.h) has
// a map per memory.

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace neuronmm::trace {

// Partitions are distinguished in quarters of 32, the smallest step at which an access may start.
inline constexpr size_t kQuarters = 4;
inline constexpr uint8_t kAllQuarters = 0xf;

struct MemoryRange {
  int64_t begin = 0, end = 0;  // Bytes per partition.
  uint8_t quarters = kAllQuarters;
};

class MemoryMap {
 public:
  using Occupant = int32_t;  // A small number that its owner reuses after its release.
  static constexpr Occupant kNoOccupant = -1;

  // A part of a range, and the previous occupants of its quarters.
  struct Piece {
    MemoryRange range;
    std::array<Occupant, kQuarters> before{kNoOccupant, kNoOccupant, kNoOccupant, kNoOccupant};
    bool taken = false;  // True if one of them has not left.
  };
  // released(occupant) is called when `occupant` has left and no part of the memory remembers it.
  using Released = std::function<void(Occupant)>;
  // blocked(range) returns a range that overlaps it and that a tensor with an address will need, if
  // there is one.
  using Blocked = std::function<std::optional<MemoryRange>(const MemoryRange&)>;

  // The memory has `size` bytes per partition. Tensors without an address get only the first
  // `capacity` bytes, at multiples of `unit`.
  MemoryMap(int64_t capacity, int64_t size, int64_t unit, Released released);

  // Returns a place for `bytes`, the longest free first. If no free range is large enough, or if a
  // tensor of more than a quarter of the memory would have to wait where older memory is free, the
  // result has several ranges. It is empty if all free ranges together are too small. `blocked` may
  // be null.
  std::vector<MemoryRange> find(int64_t bytes, const Blocked& blocked) const;
  // Puts an occupant into the ranges. The result, and the occupants that it names, stay valid until
  // the next occupy().
  const std::vector<Piece>& occupy(const std::vector<MemoryRange>& ranges, Occupant occupant);
  // Notes that the occupant's last access is over, at `now` > 0.
  void vacate(const std::vector<MemoryRange>& ranges, Occupant occupant, uint32_t now);

 private:
  using SegmentId = int32_t;
  // The first segment begins at 0 and is never erased.
  static constexpr SegmentId kNone = -1, kFirst = 0;

  struct Segment {
    int64_t begin = 0;
    std::array<Occupant, kQuarters> occupants{kNoOccupant, kNoOccupant, kNoOccupant, kNoOccupant};
    uint8_t taken = 0;   // The occupied quarters, as bits.
    uint32_t freed = 0;  // When the last occupant left; 0 if it was never used.
    SegmentId next = kNone;
    SegmentId older = kNone, newer = kNone;  // Links between free segments.
  };
  Segment& segment(SegmentId id) { return segments_[static_cast<size_t>(id)]; }
  const Segment& segment(SegmentId id) const { return segments_[static_cast<size_t>(id)]; }
  int64_t end_of(const Segment& s) const { return s.next == kNone ? size_ : segment(s.next).begin; }
  SegmentId segment_at(int64_t at) const;
  // Returns the segment that begins there, and makes it if necessary.
  SegmentId cut(SegmentId from, int64_t at);
  void merge_segments(SegmentId first, SegmentId end);
  std::optional<uint32_t> freed(const MemoryRange& range, SegmentId first) const;
  std::optional<MemoryRange> first_fit(int64_t begin, int64_t end, int64_t bytes,
                                       const Blocked& blocked) const;
  std::vector<MemoryRange> scattered(int64_t bytes, const Blocked& blocked) const;
  bool free_longer(SegmentId a, SegmentId b) const;
  void add_free(SegmentId id, SegmentId near);
  void drop_free(SegmentId id);
  void count_references(Occupant occupant, int32_t change);
  void occupy(const MemoryRange& range, Occupant occupant);

  int64_t capacity_, size_, unit_;
  // Two lists run through the segments. One has all of them by address, without gaps. The other has
  // the free ones by the time when they became free, then by address. A tensor's place is cut from
  // the oldest free segment and comes back as the newest. In lists its neighbours are at hand,
  // whereas sorted arrays would be searched and moved several times per tensor.
  std::vector<Segment> segments_;
  std::vector<SegmentId> unused_;       // Indices in segments_ that are not in use.
  std::vector<SegmentId> starting_at_;  // By address.
  SegmentId oldest_ = kFirst, newest_ = kFirst;
  std::vector<Piece> pieces_;
  // By occupant: its quarters of segments, plus one until it leaves.
  std::vector<int32_t> references_;
  Released released_;
};

}  // namespace neuronmm::trace
