#include "compress/block_rounding/tensor_blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "compress/block_rounding/block_rows.h"
#include "compress/rounding/weight_tile.h"
#include "gguf_out/block_fit.h"
#include "ops/weights.h"

namespace neuronmm::compress {
namespace {

using gguf_out::BlockNumbers;
using gguf_out::BlockShape;
using gguf_out::BlockType;

// The largest finite f16.
constexpr double kLargestHalf = 65504;

// Returns a size such that the type holds all weights up to it, of both signs.
double largest_weight(BlockType type) {
  if (type == BlockType::kF16) return kLargestHalf;
  if (type == BlockType::kF32 || type == BlockType::kBf16)
    return static_cast<double>(std::numeric_limits<float>::max());
  const BlockShape& shape = gguf_out::shape_of(type);
  const double multiplier = shape.highest_multiplier;
  if (shape.has_min) return kLargestHalf * multiplier;  // what the minimum alone can reach
  return kLargestHalf * multiplier * (shape.highest_level() - shape.zero);
}

Status check_range(double largest, BlockType type) {
  if (!std::isfinite(largest)) return fail("expected a finite weight, found NaN or infinity");
  if (largest <= largest_weight(type)) return {};
  return fail("expected weights up to ±{:g}, which {} can hold, found {:g}", largest_weight(type),
              gguf_out::info(type).name, largest);
}

// Returns the larger of two numbers, or NaN if one of them is NaN.
double larger_or_nan(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b);
}

// Fits the grids of the rows [first, first + count) of w_t. Rows beyond them are zeros.
void fit_rows(const DoubleMatrix& w_t, const RoundingGram& gram, int64_t first, int64_t count,
              BlockGrids& grids) {
  std::vector<float> row(static_cast<size_t>(w_t.columns()));
  const int64_t weights = grids.shape.weights;
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t c = 0; c < w_t.columns(); ++c)
      row[static_cast<size_t>(c)] = static_cast<float>(w_t(first + r, c));
    for (int64_t b = 0; b < grids.blocks(); ++b) {
      grids.set(b, r,
                gguf_out::fit_block(grids.type, row.data() + b * weights,
                                    gram.diagonal.data() + b * weights));
    }
  }
}

void pack_rows(const RoundedBlockRows& rows, int64_t count, std::byte* out) {
  const BlockGrids& grids = rows.grids;
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t b = 0; b < grids.blocks(); ++b) {
      gguf_out::pack(grids.type, grids.numbers(b, r, rows.code.data()), out);
      out += gguf_out::info(grids.type).block_bytes;
    }
  }
}

}  // namespace

Result<std::vector<std::byte>> blocks_by_gram(const DoubleMatrix& w_t, const RoundingGram& gram,
                                              BlockType type, const RoundingSettings& settings) {
  NMM_CHECK(gram.columns == w_t.columns() && gguf_out::fits_row(type, w_t.columns()));
  double largest = 0;
  for (int64_t i = 0; i < w_t.size(); ++i) {
    largest = larger_or_nan(largest, std::abs(w_t.data()[i]));
  }
  NMM_TRY(check_range(largest, type));
  const double unit = tile_unit(largest);
  NMM_ASSIGN(const std::vector<float> roots, gram.group_roots(gguf_out::shape_of(type).group));
  const int64_t row_bytes = gguf_out::encoded_bytes(type, w_t.columns());
  std::vector<std::byte> out(static_cast<size_t>(w_t.rows() * row_bytes));
  parallel_for((w_t.rows() + kTileRows - 1) / kTileRows, [&](int64_t tile) {
    const int64_t first = tile * kTileRows, count = std::min(kTileRows, w_t.rows() - first);
    BlockGrids grids(type, w_t.columns(), unit);
    fit_rows(w_t, gram, first, count, grids);
    const RoundedBlockRows rows =
        round_block_rows(gram, roots, std::move(grids), tile_of(w_t, unit, first, count), settings);
    pack_rows(rows, count, out.data() + first * row_bytes);
  });
  return out;
}

Result<std::vector<std::byte>> nearest_blocks(const TensorView& weight, BlockType type) {
  const int64_t rows = weight.rows(), columns = weight.columns();
  NMM_CHECK(gguf_out::fits_row(type, columns));
  const int64_t row_bytes = gguf_out::encoded_bytes(type, columns);
  std::vector<std::byte> out(static_cast<size_t>(rows * row_bytes));
  std::vector<double> largest(static_cast<size_t>(rows));
  parallel_for(rows, [&](int64_t r) {
    std::vector<float> row(static_cast<size_t>(columns));
    to_floats(weight, r * columns, columns, row.data());
    double& size = largest[static_cast<size_t>(r)];
    for (const float value : row) size = larger_or_nan(size, std::abs(value));
    if (std::isfinite(size))
      gguf_out::encode_row(type, row.data(), nullptr, columns, out.data() + r * row_bytes);
  });
  for (const double size : largest) NMM_TRY(check_range(size, type));
  return out;
}

}  // namespace neuronmm::compress
