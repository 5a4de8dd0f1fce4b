#pragma once
// Chooses scales and codes of a block so that its weighted squared error is small. Many steps are
// tried for each group, each improved by least squares.

#include "gguf_out/block_numbers.h"

namespace neuronmm::gguf_out {

// Fits the block to shape_of(type).weights finite values. `importance` weights the squared errors
// and has as many numbers, which must not be negative.
BlockNumbers fit_block(BlockType type, const float* values, const float* importance);

// Sets the codes to the nearest ones for the present scales.
void round_to_scales(const BlockShape& shape, const float* values, BlockNumbers& block);

}  // namespace neuronmm::gguf_out
