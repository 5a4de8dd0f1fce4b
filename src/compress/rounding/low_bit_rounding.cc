#include "compress/rounding/low_bit_rounding.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "compress/rounding/weight_tile.h"
#include "ops/weights.h"

namespace neuronmm::compress {
namespace {

double largest_magnitude(const DoubleMatrix& w_t) {
  double largest = 0;
  for (int64_t i = 0; i < w_t.size(); ++i) largest = std::max(largest, std::abs(w_t.data()[i]));
  return largest;
}

ops::Codes empty_codes(ops::LowBitFormat format, int64_t rows, int64_t columns) {
  const auto each = [&](int64_t count) {
    return static_cast<size_t>(rows * ((columns + count - 1) / count));
  };
  ops::Codes codes{format, rows, columns, {}, {}, {}};
  codes.q.resize(each(1));
  if (format.bits == 4) codes.groups.resize(each(format.group));
  codes.scales.resize(each(ops::kQuantGroup));
  return codes;
}

void store_rows(const RoundedRows& rows, double unit, int64_t first, int64_t count,
                ops::Codes& codes) {
  const RowGrids& grids = rows.grids;
  for (int64_t r = 0; r < count; ++r) {
    const int64_t row = first + r;
    for (int64_t c = 0; c < codes.columns; ++c) {
      codes.q[static_cast<size_t>(row * codes.columns + c)] =
          rows.code[static_cast<size_t>(c * kTileRows + r)];
    }
    for (int64_t b = 0; b < grids.blocks(); ++b) {
      const double scale = unit * grids.scale[static_cast<size_t>(b * kTileRows + r)];
      codes.scales[static_cast<size_t>(row * grids.blocks() + b)] =
          bf16::from_float(static_cast<float>(scale));
    }
    for (size_t g = 0; g < grids.group.size() / kTileRows; ++g) {
      codes.groups[static_cast<size_t>(row) * grids.grid.size() + g] =
          grids.group[g * kTileRows + static_cast<size_t>(r)].stored();
    }
  }
}

}  // namespace

Result<ops::Codes> round_by_gram(const DoubleMatrix& w_t, const RoundingGram& gram,
                                 ops::LowBitFormat format, const RoundingSettings& settings) {
  NMM_CHECK(gram.columns == w_t.columns());
  if (!w_t.all_finite()) return fail("expected a finite weight, found NaN or infinity");
  std::vector<float> roots;
  if (format.bits == 4) {
    NMM_ASSIGN(roots, gram.group_roots(format.group));
  }
  ops::Codes codes = empty_codes(format, w_t.rows(), w_t.columns());
  const double unit = tile_unit(largest_magnitude(w_t));
  parallel_for((w_t.rows() + kTileRows - 1) / kTileRows, [&](int64_t block) {
    const int64_t first = block * kTileRows, count = std::min(kTileRows, w_t.rows() - first);
    const RoundedRows rows =
        round_rows(gram, roots, format, tile_of(w_t, unit, first, count), settings);
    store_rows(rows, unit, first, count, codes);
  });
  return codes;
}

}  // namespace neuronmm::compress
