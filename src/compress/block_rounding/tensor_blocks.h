#pragma once
// Rounds one weight to a block type of GGUF so that the layer's output on a text changes as little
// as possible, as low_bit_rounding.h does for our own formats.

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "compress/linear_algebra/linear_algebra.h"
#include "compress/rounding/rounding_gram.h"
#include "compress/rounding/row_rounding.h"
#include "gguf_out/block_encoder.h"

namespace neuronmm::compress {

// Returns the blocks of w_t [rows, columns], row after row. The columns must be whole blocks. Fails
// if w_t holds NaN or infinity, or a number that the type cannot hold. The result does not depend
// on the number of threads.
Result<std::vector<std::byte>> blocks_by_gram(const DoubleMatrix& w_t, const RoundingGram& gram,
                                              gguf_out::BlockType type,
                                              const RoundingSettings& settings = {});

// Does the same for weights whose inputs are unknown, and for F32, F16 and BF16: every value goes
// to the nearest one.
Result<std::vector<std::byte>> nearest_blocks(const TensorView& weight, gguf_out::BlockType type);

}  // namespace neuronmm::compress
