#pragma once
// Holds the numbers of the blocks (gguf_out/block_numbers.h) of kTileRows rows that are rounded
// together. They define the grids on which block_rows-inl.h chooses the codes.
//
// A group is the columns that share a step and an offset. The codes of IQ4_NL are kept as levels
// plus kZeroLevel while they are chosen, so that a value is step · code - offset here, too.

#include <cstdint>
#include <vector>

#include "compress/rounding/row_tile.h"
#include "gguf_out/block_numbers.h"

namespace neuronmm::compress {

// The code that stands for level 0 of IQ4_NL. All levels plus this number are positive.
constexpr int kZeroLevel = 128;

// The grids of kTileRows rows over all columns of a weight. Rows are held in units of `unit`, a
// power of two.
struct BlockGrids {
  BlockGrids(gguf_out::BlockType block_type, int64_t column_count, double row_unit);

  gguf_out::BlockType type;
  const gguf_out::BlockShape& shape;
  int64_t columns = 0;
  double unit = 1;
  CodeRange range;
  std::vector<float> d, dmin;                // [blocks, kTileRows], what f16 holds over unit
  std::vector<int16_t> multiplier, minimum;  // [groups, kTileRows]
  std::vector<TileGrid> grid;                // one per group, computed by update()

  // Counts and positions of groups and blocks.
  int64_t groups() const { return columns / shape.group; }
  int64_t blocks() const { return columns / shape.weights; }
  int64_t group_columns() const { return shape.group; }
  int64_t group_of(int64_t column) const { return column / shape.group; }
  int64_t group_end(int64_t g) const { return (g + 1) * shape.group; }
  int64_t block_of_group(int64_t g) const { return g * shape.group / shape.weights; }

  // Returns the nearest number in units of `unit` that f16 represents, and that is finite.
  float narrow(float value) const;
  // Returns the code that stands for the weight 0 if dmin is 0.
  float zero() const;
  // Returns the step and the offset of a group for these numbers.
  struct Line {
    float step, offset;
  };
  Line line(float d_value, float dmin_value, int s, int m) const;
  // Computes the grid of group g for one row.
  void update(int64_t g, int64_t row);
  // Sets the numbers of a block of one row, and the grids of its groups.
  void set(int64_t block, int64_t row, const gguf_out::BlockNumbers& numbers);
  // Returns the numbers of a block of one row. `codes` [columns, kTileRows] are the tile's codes.
  gguf_out::BlockNumbers numbers(int64_t block, int64_t row, const uint8_t* codes) const;
};

}  // namespace neuronmm::compress
