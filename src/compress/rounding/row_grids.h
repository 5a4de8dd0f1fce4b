#pragma once
// The scales, multipliers and zero points (ops/low_bit.h) of rows that are rounded side by side:
// the grid that their codes are chosen on.

#include <cstdint>
#include <vector>

#include "compress/rounding/code_lanes.h"
#include "ops/low_bit.h"

namespace neuronmm::compress {

// The grids of kLanes rows over all columns.
struct RowGrids {
  RowGrids(ops::LowBitFormat form, int64_t column_count);

  ops::LowBitFormat format;
  int64_t columns = 0;
  CodeRange range;
  std::vector<float> scale;  // [blocks of kQuantGroup columns, kLanes], values that bf16 has
  std::vector<ops::GroupOf4Bits> group;  // [groups, kLanes]; only for 4 bits
  std::vector<LaneGrid> grid;            // per group, what the two above say

  int64_t groups() const { return static_cast<int64_t>(grid.size()); }
  int64_t blocks() const;
  int64_t group_of(int64_t column) const { return column / format.group; }
  int64_t block_of_group(int64_t g) const;
  // Columns [first, last) of a group or of a block.
  int64_t group_end(int64_t g) const;
  int64_t block_end(int64_t b) const;
  int64_t first_group(int64_t b) const;  // of a block; of blocks(): groups()
  // Makes the grid of a lane's group from its scale and group.
  void update(int64_t g, int64_t lane);
};

// Of bf16 the nearest.
float bf16_value(float value);

}  // namespace neuronmm::compress
