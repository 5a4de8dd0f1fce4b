#pragma once
// Rounds kTileRows rows of a weight to a block type of GGUF with the vector instructions of the
// machine. block_rows-inl.h has the algorithm; tensor_blocks.h is the caller.

#include <cstdint>
#include <vector>

#include "compress/block_rounding/block_grids.h"
#include "compress/rounding/rounding_gram.h"
#include "compress/rounding/row_rounding.h"

namespace neuronmm::compress {

// The result for kTileRows rows.
struct RoundedBlockRows {
  BlockGrids grids;
  std::vector<uint8_t> code;  // [columns, kTileRows]
};

// Rounds `weight` [columns, kTileRows], which is in units of grids.unit and for which `grids` has
// been fitted. `group_roots` are gram.group_roots() for the type's groups. As for round_rows(), a
// code may differ between machines where two codes cost nearly the same.
RoundedBlockRows round_block_rows(const RoundingGram& gram, const std::vector<float>& group_roots,
                                  BlockGrids grids, std::vector<float> weight,
                                  const RoundingSettings& settings);

}  // namespace neuronmm::compress
