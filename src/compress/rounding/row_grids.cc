#include "compress/rounding/row_grids.h"

#include <algorithm>

#include "base/float16.h"
#include "ops/weights.h"

namespace neuronmm::compress {
namespace {

using ops::kQuantGroup;

CodeRange range_of(int bits) {
  if (bits == 8) return {1, 255};
  if (bits == 6) return {1, 63};
  return {0, 15};
}

int64_t parts(int64_t count, int64_t each) { return (count + each - 1) / each; }

}  // namespace

RowGrids::RowGrids(ops::LowBitFormat form, int64_t column_count)
    : format(form), columns(column_count), range(range_of(form.bits)) {
  grid.resize(static_cast<size_t>(parts(columns, format.group)));
  scale.resize(static_cast<size_t>(blocks() * kTileRows));
  if (format.bits == 4) group.resize(grid.size() * kTileRows);
}

int64_t RowGrids::blocks() const { return parts(columns, kQuantGroup); }

int64_t RowGrids::block_of_group(int64_t g) const { return g * format.group / kQuantGroup; }

int64_t RowGrids::group_end(int64_t g) const { return std::min(columns, (g + 1) * format.group); }

int64_t RowGrids::block_end(int64_t b) const { return std::min(columns, (b + 1) * kQuantGroup); }

int64_t RowGrids::first_group(int64_t b) const {
  return std::min(groups(), b * (kQuantGroup / format.group));
}

void RowGrids::update(int64_t g, int64_t row) {
  const float step = scale[static_cast<size_t>(block_of_group(g) * kTileRows + row)];
  TileGrid& of_group = grid[static_cast<size_t>(g)];
  if (format.bits == 4) {
    const ops::GroupOf4Bits& chosen = group[static_cast<size_t>(g * kTileRows + row)];
    of_group.set(row, step * static_cast<float>(chosen.multiplier),
                 step * static_cast<float>(chosen.zero()));
  } else {
    of_group.set(row, step, step * 0.5F * (range.lowest + range.highest));
  }
}

float bf16_value(float value) { return bf16::from_float(value).to_float(); }

}  // namespace neuronmm::compress
