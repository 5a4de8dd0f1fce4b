#pragma once
// Rounds the weight of a linear layer to codes of few bits (ops/low_bit.h) so that the layer's
// output on a text changes as little as possible. The error is the sum of e·H·eᵀ over the rows e of
// W - Q. H is the Gram matrix of the layer's input. tensor_rounding.h calls it for each tensor of a
// model.

#include "base/result.h"
#include "compress/linear_algebra/linear_algebra.h"
#include "compress/rounding/rounding_gram.h"
#include "compress/rounding/row_rounding.h"
#include "ops/low_bit.h"

namespace neuronmm::compress {

// Returns the codes of w_t [rows, columns]. Fails if w_t holds NaN or infinity. Rows are rounded on
// all threads, and the result does not depend on their number. Apart from the arguments and the
// result, memory holds a few hundred rows in fp32 per thread.
Result<ops::Codes> round_by_gram(const DoubleMatrix& w_t, const RoundingGram& gram,
                                 ops::LowBitFormat format, const RoundingSettings& settings = {});

}  // namespace neuronmm::compress
