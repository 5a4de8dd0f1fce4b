#pragma once
// Rounds kTileRows rows of a weight to codes with the vector instructions of the machine.
// row_rounding-inl.h has the algorithm. low_bit_rounding.h calls it for every kTileRows rows of a
// weight.

#include <cstdint>
#include <vector>

#include "compress/rounding/rounding_gram.h"
#include "compress/rounding/row_grids.h"

namespace neuronmm::compress {

// How many sweeps follow the first rounding of all columns.
struct RoundingSettings {
  int descents = 1;  // sweeps that change codes only
  int refits = 2;    // sweeps that also choose groups and scales, after the others
};

// The result for kTileRows rows.
struct RoundedRows {
  RowGrids grids;
  std::vector<uint8_t> code;  // [columns, kTileRows]
};

// Rounds `weight` [columns, kTileRows]. `group_roots` are gram.group_roots() for 4 bits, otherwise
// empty. Sums are rounded differently with other vector instructions or another BLAS. A code may
// therefore differ between machines where two codes cost nearly the same.
RoundedRows round_rows(const RoundingGram& gram, const std::vector<float>& group_roots,
                       ops::LowBitFormat format, std::vector<float> weight,
                       const RoundingSettings& settings);

}  // namespace neuronmm::compress
