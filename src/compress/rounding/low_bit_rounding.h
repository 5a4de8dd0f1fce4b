#pragma once
// Rounding the weight of a linear layer to codes of few bits (ops/low_bit.h) such that what the
// layer makes of a text changes as little as possible: over the rows e of W - Q the sum of e·H·eᵀ,
// H the Gram matrix of the layer's input.

#include "base/result.h"
#include "compress/linear_algebra/linear_algebra.h"
#include "compress/rounding/rounding_gram.h"
#include "compress/rounding/row_rounding.h"
#include "ops/low_bit.h"

namespace neuronmm::compress {

// Codes of w_t [rows, columns]. Refused: NaN or infinity. Rows are rounded on all threads, with the
// same result for any number of them; in memory beside the arguments are a few hundred rows in fp32
// per thread.
Result<ops::Codes> round_by_gram(const DoubleMatrix& w_t, const RoundingGram& gram,
                                 ops::LowBitFormat format, const RoundingSettings& settings = {});

}  // namespace neuronmm::compress
