// Compares footprints and cells with the elements themselves, one by one.

#include "trainium/trace/footprint.h"

#include <algorithm>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "trainium/trace/accesses.h"

namespace neuronmm::trace {
namespace {

using tile::Memory;

TensorKind make_kind(Memory memory, Shape shape, const char* dtype) {
  TensorKind kind;
  kind.memory = memory;
  kind.dtype = *find_dtype(dtype);
  for (const int64_t size : shape) kind.elements *= size;
  kind.row_elements = memory == Memory::kHbm ? shape.back() : kind.elements / shape[0];
  kind.shape = std::move(shape);
  return kind;
}

Pattern make_pattern(std::vector<Axis> axes) {
  Pattern pattern;
  pattern.axes = std::move(axes);
  for (const auto& [stride, count] : pattern.axes) {
    pattern.elements *= count;
    (stride > 0 ? pattern.highest : pattern.lowest) += stride * (count - 1);
  }
  return pattern;
}

// Returns the bytes of a tensor that an access touches, as row and column.
std::set<std::pair<int64_t, int64_t>> touched(const TensorKind& kind, const Pattern& pattern,
                                              int64_t offset) {
  std::set<std::pair<int64_t, int64_t>> bytes;
  std::vector<int64_t> index(pattern.axes.size());
  for (int64_t n = 0; n < pattern.elements; ++n) {
    int64_t left = n, element = offset;
    for (size_t i = pattern.axes.size(); i-- > 0;) {
      element += left % pattern.axes[i].count * pattern.axes[i].stride;
      left /= pattern.axes[i].count;
    }
    for (int64_t b = 0; b < kind.dtype.bytes; ++b) {
      bytes.insert(
          {element / kind.row_elements, element % kind.row_elements * kind.dtype.bytes + b});
    }
  }
  return bytes;
}

std::set<std::pair<int64_t, int64_t>> bytes_of(const Footprint& footprint) {
  std::set<std::pair<int64_t, int64_t>> bytes;
  for (int64_t row = footprint.rows.begin; row < footprint.rows.end; ++row) {
    for (const Interval& run : footprint.columns) {
      for (int64_t column = run.begin; column < run.end; ++column) bytes.insert({row, column});
    }
  }
  return bytes;
}

using Random = std::mt19937;

int64_t pick(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

TensorKind random_kind(Random& random, Memory memory) {
  Shape shape = {pick(random, 1, 6)};  // At most 49 runs in a row, few enough to be exact.
  for (int64_t d = pick(random, 1, 2); d > 0; --d) shape.push_back(pick(random, 1, 7));
  return make_kind(memory, shape, pick(random, 0, 1) == 1 ? "bf16" : "fp32");
}

struct Slice {
  Pattern pattern;
  int64_t offset = 0;
};

// Returns a slice of every dimension. Slices of the free dimensions may have steps and go
// backwards.
Slice random_slice(Random& random, const TensorKind& kind) {
  Slice slice;
  std::vector<Axis> axes;
  int64_t stride = kind.elements;
  for (size_t d = 0; d < kind.shape.size(); ++d) {
    const int64_t size = kind.shape[d];
    stride /= size;
    const int64_t step = d > 0 ? pick(random, 1, 3) : 1;
    const int64_t count = pick(random, 1, (size - 1) / step + 1);
    const int64_t first = pick(random, 0, size - 1 - (count - 1) * step);
    const bool backwards = d > 0 && pick(random, 0, 4) == 0;
    slice.offset += (backwards ? first + (count - 1) * step : first) * stride;
    axes.push_back({(backwards ? -step : step) * stride, count});
  }
  slice.pattern = make_pattern(axes);
  return slice;
}

TEST(Footprint, SlicesOnChipAreExact) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 2000; ++i) {
    const TensorKind kind = random_kind(random, Memory::kSbuf);
    const auto [pattern, offset] = random_slice(random, kind);
    EXPECT_EQ(bytes_of(footprint(kind, kind, 0, pattern, offset)), touched(kind, pattern, offset));
  }
}

// In HBM, a row is the last dimension. The footprint includes what lies between strided rows.
TEST(Footprint, InHbmTheFootprintCoversWhatIsTouched) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 2000; ++i) {
    const TensorKind kind = random_kind(random, Memory::kHbm);
    const auto [pattern, offset] = random_slice(random, kind);
    const auto covered = bytes_of(footprint(kind, kind, 0, pattern, offset));
    for (const auto& byte : touched(kind, pattern, offset)) {
      ASSERT_TRUE(covered.contains(byte)) << byte.first << ", " << byte.second;
    }
    for (const auto& [row, column] : covered) {
      ASSERT_LT(row, kind.rows());
      ASSERT_LT(column, kind.row_bytes());
    }
  }
}

// The tensor is [8, 512] bf16. The access touches columns 128 to 255 of partitions 2 to 5.
TEST(Footprint, ATileIsOneRunPerPartition) {
  const TensorKind kind = make_kind(Memory::kSbuf, {8, 512}, "bf16");
  const Footprint f = footprint(kind, kind, 0, make_pattern({{512, 4}, {1, 128}}), 2 * 512 + 128);
  EXPECT_EQ(f.rows.begin, 2);
  EXPECT_EQ(f.rows.end, 6);
  ASSERT_EQ(f.columns.size(), 1u);
  EXPECT_EQ(f.columns[0].begin, 256);
  EXPECT_EQ(f.columns[0].end, 512);
}

// A view reads fp32 as bytes, 64 bytes into each partition of its parent.
TEST(Footprint, AViewLiesAtItsOffsetInTheParent) {
  const TensorKind root = make_kind(Memory::kSbuf, {8, 32}, "fp32");
  const TensorKind view = make_kind(Memory::kSbuf, {8, 16}, "u8");
  const Footprint f = footprint(view, root, 64, make_pattern({{16, 8}, {1, 8}}), 4);
  ASSERT_EQ(f.columns.size(), 1u);
  EXPECT_EQ(f.columns[0].begin, 68);
  EXPECT_EQ(f.columns[0].end, 76);
}

// More than 64 separate runs become one.
TEST(Footprint, MoreThan64RunsBecomeTheirHull) {
  const TensorKind kind = make_kind(Memory::kSbuf, {1, 512}, "bf16");
  const Footprint few = footprint(kind, kind, 0, make_pattern({{512, 1}, {8, 64}}), 0);
  EXPECT_EQ(few.columns.size(), 64u);
  const Footprint many = footprint(kind, kind, 0, make_pattern({{512, 1}, {4, 128}}), 0);
  ASSERT_EQ(many.columns.size(), 1u);
  EXPECT_EQ(many.columns[0].end, 2 * (4 * 127 + 1));
}

template <typename T>
bool share(const std::set<T>& a, const std::set<T>& b) {
  return std::any_of(a.begin(), a.end(), [&](const T& item) { return b.contains(item); });
}

// Two accesses share a cell if and only if they share a byte.
TEST(AccessTable, CellsAreSharedByAccessesThatOverlap) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int round = 0; round < 300; ++round) {
    Header header;
    header.tensors = {random_kind(random, Memory::kSbuf)};
    std::vector<Access> accesses;
    for (uint32_t i = 0; i < 6; ++i) {
      const auto [pattern, offset] = random_slice(random, header.tensors[0]);
      header.patterns.push_back(pattern);
      accesses.push_back({.pattern = i, .offset = offset});
    }
    AccessTable table(header);
    for (const Access& access : accesses) table.add(access);
    table.finish();
    for (const Access& a : accesses) {
      for (const Access& b : accesses) {
        const auto x = table.cells(table.find(a)), y = table.cells(table.find(b));
        const auto bytes = [&](const Access& access) {
          return touched(header.tensors[0], header.patterns[access.pattern], access.offset);
        };
        ASSERT_EQ(share(std::set(x.begin(), x.end()), std::set(y.begin(), y.end())),
                  share(bytes(a), bytes(b)));
      }
    }
  }
}

// Cuts are dropped if there would be too many cells. Accesses that overlap still share some.
TEST(AccessTable, ManyAccessesHaveABoundedNumberOfCells) {
  Header header;
  header.tensors = {make_kind(Memory::kSbuf, {128, 8192}, "bf16")};
  header.patterns = {make_pattern({{8192, 1}, {1, 1}})};
  AccessTable table(header);
  for (int64_t i = 0; i < 20000; ++i) table.add({.pattern = 0, .offset = i * 37});
  table.finish();
  EXPECT_LE(table.grid(0).cells(), 1 << 12);
  for (int64_t i = 0; i < 20000; ++i) {
    ASSERT_FALSE(table.cells(table.find({.pattern = 0, .offset = i * 37})).empty());
  }
}

}  // namespace
}  // namespace neuronmm::trace
