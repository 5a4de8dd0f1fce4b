#include "compress/block_rounding/block_grids.h"

#include <array>

namespace neuronmm::compress {
namespace {

using gguf_out::BlockNumbers;
using gguf_out::BlockShape;
using gguf_out::kLevels;

constexpr std::array<float, kUnevenCodes> kTableCodes = [] {
  std::array<float, kUnevenCodes> codes = {};
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<float>(kLevels[i] + kZeroLevel);
  return codes;
}();

CodeRange range_of(const BlockShape& shape) {
  if (shape.has_table) return {kTableCodes.front(), kTableCodes.back(), kTableCodes.data()};
  return {0, static_cast<float>(shape.codes - 1)};
}

}  // namespace

BlockGrids::BlockGrids(gguf_out::BlockType block_type, int64_t column_count, double row_unit)
    : type(block_type),
      shape(gguf_out::shape_of(block_type)),
      columns(column_count),
      unit(row_unit),
      range(range_of(shape)) {
  d.resize(static_cast<size_t>(blocks() * kTileRows));
  dmin.resize(d.size());
  multiplier.resize(static_cast<size_t>(groups() * kTileRows));
  minimum.resize(multiplier.size());
  grid.resize(static_cast<size_t>(groups()));
}

float BlockGrids::narrow(float value) const {
  return static_cast<float>(gguf_out::f16_value(static_cast<float>(value * unit)) / unit);
}

float BlockGrids::zero() const {
  return static_cast<float>(shape.has_table ? kZeroLevel : shape.zero);
}

BlockGrids::Line BlockGrids::line(float d_value, float dmin_value, int s, int m) const {
  const float step = d_value * static_cast<float>(s);
  return {step, dmin_value * static_cast<float>(m) + zero() * step};
}

void BlockGrids::update(int64_t g, int64_t row) {
  const auto at = static_cast<size_t>(g * kTileRows + row);
  const auto in_block = static_cast<size_t>(block_of_group(g) * kTileRows + row);
  const Line own = line(d[in_block], dmin[in_block], multiplier[at], minimum[at]);
  grid[static_cast<size_t>(g)].set(row, own.step, own.offset);
}

void BlockGrids::set(int64_t block, int64_t row, const BlockNumbers& numbers) {
  const auto in_block = static_cast<size_t>(block * kTileRows + row);
  d[in_block] = static_cast<float>(numbers.d / unit);
  dmin[in_block] = static_cast<float>(numbers.dmin / unit);
  for (int64_t i = 0; i < shape.groups(); ++i) {
    const int64_t g = block * shape.groups() + i;
    const auto at = static_cast<size_t>(g * kTileRows + row);
    multiplier[at] = numbers.multiplier[static_cast<size_t>(i)];
    minimum[at] = numbers.minimum[static_cast<size_t>(i)];
    update(g, row);
  }
}

BlockNumbers BlockGrids::numbers(int64_t block, int64_t row, const uint8_t* codes) const {
  BlockNumbers out;
  const auto in_block = static_cast<size_t>(block * kTileRows + row);
  out.d = static_cast<float>(d[in_block] * unit);
  out.dmin = static_cast<float>(dmin[in_block] * unit);
  for (int64_t i = 0; i < shape.groups(); ++i) {
    const auto at = static_cast<size_t>((block * shape.groups() + i) * kTileRows + row);
    out.multiplier[static_cast<size_t>(i)] = multiplier[at];
    out.minimum[static_cast<size_t>(i)] = minimum[at];
  }
  for (int64_t i = 0; i < shape.weights; ++i) {
    const int code = codes[(block * shape.weights + i) * kTileRows + row];
    out.code[static_cast<size_t>(i)] = static_cast<uint8_t>(
        shape.has_table ? gguf_out::nearest_table_code(static_cast<float>(code - kZeroLevel))
                        : code);
  }
  return out;
}

}  // namespace neuronmm::compress
