#include "compress/rounding/weight_tile.h"

#include <cmath>

#include "compress/rounding/row_tile.h"

namespace neuronmm::compress {

double tile_unit(double largest) { return largest > 0 ? std::exp2(std::ilogb(largest)) : 1.0; }

std::vector<float> tile_of(const DoubleMatrix& w_t, double unit, int64_t first, int64_t count) {
  std::vector<float> tile(static_cast<size_t>(w_t.columns() * kTileRows));
  for (int64_t c = 0; c < w_t.columns(); ++c) {
    const double* const from = w_t.column(c) + first;
    for (int64_t r = 0; r < count; ++r) {
      tile[static_cast<size_t>(c * kTileRows + r)] = static_cast<float>(from[r] / unit);
    }
  }
  return tile;
}

}  // namespace neuronmm::compress
