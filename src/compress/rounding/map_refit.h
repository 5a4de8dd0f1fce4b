#pragma once
// A map of pivots that is rounded moves all that its weight makes; the weight beside it takes some
// of that back.

#include "base/result.h"
#include "compress/linear_algebra/linear_algebra.h"

namespace neuronmm::compress {

// The weight [r, columns] that makes of the rounded map what is nearest (in the Frobenius norm) to
// what `weight` makes of `map`, both maps [others, r]: of [I; rounded] · X the X nearest to
// [I; map] · weight. With pivots of the input, weight and maps are the transposed ones.
Result<DoubleMatrix> fitted_to_rounded_map(const DoubleMatrix& weight, const DoubleMatrix& map,
                                           const DoubleMatrix& rounded);

}  // namespace neuronmm::compress
