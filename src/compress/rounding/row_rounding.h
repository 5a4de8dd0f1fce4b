#pragma once
// The codes of kLanes rows of a weight, by the vectors of the machine at hand.

#include <cstdint>
#include <vector>

#include "compress/rounding/rounding_gram.h"
#include "compress/rounding/row_grids.h"

namespace neuronmm::compress {

struct RoundingSettings {
  int descents = 1;  // sweeps over the codes after all columns are rounded once
  int refits = 2;    // sweeps that choose groups and scales again as well
};

struct RoundedRows {
  RowGrids grids;
  std::vector<uint8_t> code;  // [columns, kLanes]
};

// weight [columns, kLanes]; group_roots those of `gram` for 4 bits. How: row_rounding-inl.h. On
// processors with other vectors, and by another BLAS, sums are rounded otherwise, so that a code
// may differ where two cost nearly the same.
RoundedRows round_rows(const RoundingGram& gram, const std::vector<float>& group_roots,
                       ops::LowBitFormat format, std::vector<float> weight,
                       const RoundingSettings& settings);

}  // namespace neuronmm::compress
