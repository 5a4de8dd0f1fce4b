#pragma once
// Activations in the order in which the matmul kernels read them. The rows are cut into tiles of at
// most `Kernels::tile_rows` (what fits in registers); within a block of K, each tile lies as
// [k][rows of the tile], so that a kernel reads it from start to end. One row is its own packing.

#include <algorithm>
#include <cstdint>

namespace neuronmm::cpu {

struct PackedRows {
  const float* data = nullptr;
  int64_t rows = 0;
  int64_t k = 0;
  int64_t k_block = 0;  // blocks of K lie one after the other; the last may be shorter
  int64_t tiles = 0;

  // Tiles of nearly equal height: 13 rows are 6 + 7, not 12 + 1.
  int64_t first_row(int64_t tile) const { return rows * tile / tiles; }
  int64_t tile_rows(int64_t tile) const { return first_row(tile + 1) - first_row(tile); }
  // Where the tile's rows for k in [first_k, first_k + count), one block of K, start in data.
  int64_t offset(int64_t tile, int64_t first_k, int64_t count) const {
    return first_k * rows + first_row(tile) * count;
  }
};

// Writes scale · row(i)[k], for the rows of one tile, to where `layout` wants it in `packed`.
template <typename Row>
void pack_tile(const PackedRows& layout, int64_t tile, float scale, const Row& row, float* packed) {
  const int64_t first = layout.first_row(tile), rows = layout.tile_rows(tile);
  for (int64_t first_k = 0; first_k < layout.k; first_k += layout.k_block) {
    const int64_t count = std::min(layout.k_block, layout.k - first_k);
    float* const block = packed + layout.offset(tile, first_k, count);
    for (int64_t r = 0; r < rows; ++r) {
      const float* const from = row(first + r) + first_k;
      for (int64_t k = 0; k < count; ++k) block[k * rows + r] = scale * from[k];
    }
  }
}

}  // namespace neuronmm::cpu
