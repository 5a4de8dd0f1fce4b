#pragma once
// Holds the scales, multipliers and zero points (ops/low_bit.h) of kTileRows rows that are rounded
// together. They define the grid on which the codes are chosen. group_fit-inl.h sets them, and
// row_rounding-inl.h changes them.
//
// A group is the columns that share a multiplier and zero point; a block is the kQuantGroup columns
// that share a scale.

#include <cstdint>
#include <vector>

#include "compress/rounding/row_tile.h"
#include "ops/low_bit.h"

namespace neuronmm::compress {

// The grids of kTileRows rows over all columns of a weight.
struct RowGrids {
  RowGrids(ops::LowBitFormat form, int64_t column_count);

  ops::LowBitFormat format;
  int64_t columns = 0;
  CodeRange range;
  // [blocks, kTileRows], values that bf16 represents exactly.
  std::vector<float> scale;
  std::vector<ops::GroupOf4Bits> group;  // [groups, kTileRows]; empty unless the format has 4 bits
  std::vector<TileGrid> grid;  // one per group, computed from `scale` and `group` by update()

  // Counts and positions of groups and blocks.
  int64_t groups() const { return static_cast<int64_t>(grid.size()); }
  int64_t blocks() const;
  int64_t group_columns() const { return format.group; }
  int64_t group_of(int64_t column) const { return column / format.group; }
  int64_t block_of_group(int64_t g) const;
  // Return one past the last column of a group or of a block.
  int64_t group_end(int64_t g) const;
  int64_t block_end(int64_t b) const;
  // Returns the first group of block b, or groups() if b is blocks().
  int64_t first_group(int64_t b) const;
  // Computes the grid of group g for one row from the row's scale and group.
  void update(int64_t g, int64_t row);
};

// Returns the nearest value that bf16 represents.
float bf16_value(float value);

}  // namespace neuronmm::compress
