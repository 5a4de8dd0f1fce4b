#pragma once
// Fits the weight next to a rounded map of pivots (ops::Pivots). Rounding the map changes every
// output of the pair; a new weight compensates part of that. mlp_rounding.h and model_writer.h use
// it.

#include "base/result.h"
#include "compress/linear_algebra/linear_algebra.h"

namespace neuronmm::compress {

// Returns the X [r, columns] for which [I; rounded] · X is nearest to [I; map] · weight in the
// Frobenius norm. Both maps are [others, r]. For pivots of the input, callers pass the transposed
// weight and maps and transpose the result. Fails if the normal equations cannot be solved.
Result<DoubleMatrix> fitted_to_rounded_map(const DoubleMatrix& weight, const DoubleMatrix& map,
                                           const DoubleMatrix& rounded);

}  // namespace neuronmm::compress
