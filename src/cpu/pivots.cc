#include "cpu/pivots.h"

#include <algorithm>

#include "cpu/tasks.h"

namespace neuronmm::cpu {
namespace {

// The cost of an element that is moved by its index, in multiply-adds (the unit of for_each_task).
// Assumed.
constexpr int64_t kMoveWork = 8;

void gather(const float* from, const std::vector<int32_t>& index, float* to) {
  for (const int32_t i : index) *to++ = from[i];
}

void scatter(const float* from, const std::vector<int32_t>& index, float* to) {
  for (const int32_t i : index) to[i] = *from++;
}

}  // namespace

PackedPivots::PackedPivots(const ops::Pivots& pivots) {
  if (pivots.empty()) return;
  index_ = pivots.index;
  others_ = ops::non_pivots(pivots);
  map_ = PackedMatrix(pivots.map_t);
  NMM_CHECK(map_.k() == rank() || map_.n() == rank());
}

// Works on a tile of rows at a time, whose gathered columns are packed while they are in the
// first-level cache.
Product PackedPivots::narrow(const Kernels& kernels, ConstMatrixView x, Buffer<float>& storage,
                             MutableMatrixView t) const {
  NMM_CHECK(x.columns == features() && t.rows == x.rows && t.columns == rank());
  const int64_t width = std::ssize(others_);
  const RowPacker packer(kernels, x.rows, width, map_.type(), storage);
  const PackedRows& a = packer.rows();
  for_each_task(a.tiles, kMoveWork * x.rows * x.columns, [&](int64_t tile) {
    thread_local Buffer<float> columns;
    const int64_t first = a.first_row(tile), rows = a.tile_rows(tile);
    const MutableMatrixView gathered(columns.reserve(rows * width), rows, width);
    for (int64_t i = 0; i < rows; ++i) {
      gather(x.row(first + i), others_, gathered.row(i));
      gather(x.row(first + i), index_, t.row(first + i));
    }
    packer.pack(tile, 1, 0, gathered);
  });
  return {.a = a, .w = &map_, .y = t, .add_to_y = true};
}

void PackedPivots::widen(ConstMatrixView z, ConstMatrixView rest, MutableMatrixView y) const {
  NMM_CHECK(z.columns == rank() && y.columns == features() && rest.columns == std::ssize(others_));
  for_each_task(y.rows, kMoveWork * y.rows * y.columns, [&](int64_t i) {
    scatter(z.row(i), index_, y.row(i));
    scatter(rest.row(i), others_, y.row(i));
  });
}

}  // namespace neuronmm::cpu
