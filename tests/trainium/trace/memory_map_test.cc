// Compares the memory map with a plain list of bytes.

#include "trainium/trace/memory_map.h"

#include <algorithm>
#include <map>
#include <random>

#include <gtest/gtest.h>

namespace neuronmm::trace {
namespace {

constexpr int64_t kBytes = 200;

// The reference: the occupant and the state of every byte.
struct Bytes {
  std::array<int, kBytes> occupant{}, freed{};
  std::array<bool, kBytes> taken{};

  Bytes() { occupant.fill(MemoryMap::kNoOccupant); }
  bool free(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) {
      if (taken[static_cast<size_t>(i)]) return false;
    }
    return true;
  }
  int newest(int64_t begin, int64_t end) const {
    return *std::max_element(freed.begin() + begin, freed.begin() + end);
  }
};

TEST(MemoryMap, FindGivesTheMemoryThatHasBeenFreeLongest) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::vector<int> recycled;
  MemoryMap map(kBytes, kBytes, 1, [&](int occupant) { recycled.push_back(occupant); });
  Bytes bytes;
  std::map<int, std::vector<MemoryRange>> live;
  int names = 0;
  for (uint32_t now = 1; now < 3000; ++now) {
    const int64_t size = std::uniform_int_distribution<int64_t>(1, 40)(random);
    const auto ranges = map.find(size, nullptr);
    int64_t got = 0;
    for (const MemoryRange& range : ranges) got += range.end - range.begin;
    if (ranges.empty()) {
      EXPECT_LT(std::count(bytes.taken.begin(), bytes.taken.end(), false), size);
    } else {
      ASSERT_EQ(got, size);
    }
    // A range has been free since the last of its bytes was freed. If a free range of the size
    // exists, the result of a small size is one piece, and no other range has been free longer.
    int64_t oldest = -1;
    for (int64_t at = 0; at + size <= kBytes; ++at) {
      if (!bytes.free(at, at + size)) continue;
      const int64_t newest = bytes.newest(at, at + size);
      oldest = oldest < 0 ? newest : std::min(oldest, newest);
    }
    if (oldest >= 0 && size <= kBytes / 4) {
      ASSERT_EQ(ranges.size(), 1u);
      EXPECT_TRUE(bytes.free(ranges[0].begin, ranges[0].end));
      EXPECT_EQ(bytes.newest(ranges[0].begin, ranges[0].end), oldest);
    }
    if (!ranges.empty()) {
      const int name = names++;
      int64_t covered = 0;
      for (const MemoryMap::Piece& piece : map.occupy(ranges, name)) {
        EXPECT_FALSE(piece.taken);
        for (int64_t i = piece.range.begin; i < piece.range.end; ++i, ++covered) {
          EXPECT_EQ(piece.before[0], bytes.occupant[static_cast<size_t>(i)]);
          bytes.occupant[static_cast<size_t>(i)] = name;
          bytes.taken[static_cast<size_t>(i)] = true;
        }
      }
      EXPECT_EQ(covered, size);
      live[name] = ranges;
    }
    if (live.size() > 4 || ranges.empty()) {
      auto leaving = live.begin();
      std::advance(leaving, std::uniform_int_distribution<size_t>(0, live.size() - 1)(random));
      map.vacate(leaving->second, leaving->first, now);
      for (const MemoryRange& range : leaving->second) {
        for (int64_t i = range.begin; i < range.end; ++i) {
          bytes.taken[static_cast<size_t>(i)] = false;
          bytes.freed[static_cast<size_t>(i)] = static_cast<int>(now);
        }
      }
      live.erase(leaving);
    }
  }
  // Every occupant of which nothing is left has been released once, and no other occupant has been.
  std::vector<int> remembered(bytes.occupant.begin(), bytes.occupant.end());
  for (const auto& [name, ranges] : live) remembered.push_back(name);
  std::vector<int> expected;
  for (int name = 0; name < names; ++name) {
    if (std::find(remembered.begin(), remembered.end(), name) == remembered.end()) {
      expected.push_back(name);
    }
  }
  std::sort(recycled.begin(), recycled.end());
  EXPECT_EQ(recycled, expected);
}

// A tensor that is freed at once does not come back to the same place: five places of memory are
// used in turn.
TEST(MemoryMap, SuccessiveTensorsTakeTurnsThroughFreeMemory) {
  MemoryMap map(50, 50, 1, [](int) {});
  std::vector<int64_t> begins;
  for (int i = 0; i < 10; ++i) {
    const auto ranges = map.find(10, nullptr);
    begins.push_back(ranges.at(0).begin);
    map.occupy(ranges, i);
    map.vacate(ranges, i, static_cast<uint32_t>(i + 1));
  }
  EXPECT_EQ(begins, (std::vector<int64_t>{0, 10, 20, 30, 40, 0, 10, 20, 30, 40}));
}

TEST(MemoryMap, ATensorIsSplitIfNoFreePlaceIsLargeEnough) {
  MemoryMap map(30, 30, 1, [](int) {});
  map.occupy({{0, 10}}, 0);
  map.occupy({{10, 20}}, 1);
  map.occupy({{20, 30}}, 2);
  map.vacate({{0, 10}}, 0, 5);
  map.vacate({{20, 30}}, 2, 6);
  const auto ranges = map.find(15, nullptr);
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].begin, 0);
  EXPECT_EQ(ranges[0].end, 10);
  EXPECT_EQ(ranges[1].begin, 20);
  EXPECT_EQ(ranges[1].end, 25);
  EXPECT_TRUE(map.find(21, nullptr).empty());
}

// A large tensor takes the memory that has been free longest, even if it lies in pieces.
TEST(MemoryMap, ALargeTensorTakesTheOldestMemoryInPieces) {
  MemoryMap map(40, 40, 1, [](int) {});
  map.occupy({{10, 34}}, 0);
  map.vacate({{10, 34}}, 0, 5);
  const auto ranges = map.find(24, nullptr);
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges[0].begin, 0);
  EXPECT_EQ(ranges[1].begin, 34);
  EXPECT_EQ(ranges[2].begin, 10);
  EXPECT_EQ(ranges[2].end, 18);
}

// Two tensors of 32 partitions each may lie at the same address, in different partitions.
TEST(MemoryMap, QuartersOfThePartitionsAreTrackedSeparately) {
  MemoryMap map(100, 100, 1, [](int) {});
  map.occupy({{0, 40, 0b0001}}, 0);
  for (const auto& piece : map.occupy({{0, 40, 0b0010}}, 1)) EXPECT_FALSE(piece.taken);
  const auto& pieces = map.occupy({{20, 60, 0b0011}}, 2);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_TRUE(pieces[0].taken);
  EXPECT_EQ(pieces[0].before[0], 0);
  EXPECT_EQ(pieces[0].before[1], 1);
  EXPECT_EQ(pieces[0].before[2], MemoryMap::kNoOccupant);
  EXPECT_FALSE(pieces[1].taken);
}

TEST(MemoryMap, FindAvoidsBlockedRanges) {
  MemoryMap map(100, 120, 1, [](int) {});
  const auto blocked = [](const MemoryRange& range) -> std::optional<MemoryRange> {
    if (range.begin < 30 && range.end > 10) return MemoryRange{10, 30};
    return std::nullopt;
  };
  EXPECT_EQ(map.find(20, blocked).at(0).begin, 30);
  EXPECT_EQ(map.find(10, blocked).at(0).begin, 0);
  const auto pieces = map.find(75, blocked);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].end, 10);
  EXPECT_EQ(pieces[1].begin, 30);
  EXPECT_TRUE(map.find(90, blocked).empty());
}

}  // namespace
}  // namespace neuronmm::trace
