#include "compress/rounding/map_refit.h"

namespace neuronmm::compress {
namespace {

// Returns I + aᵀ·b.
DoubleMatrix identity_plus(const DoubleMatrix& a, const DoubleMatrix& b) {
  DoubleMatrix sum = multiply(a, Transpose::kYes, b, Transpose::kNo);
  for (int64_t i = 0; i < sum.rows(); ++i) sum(i, i) += 1.0;
  return sum;
}

}  // namespace

// Solves the normal equations (I + RᵀR) X = (I + RᵀM) W, with R the rounded map and M the exact
// one.
Result<DoubleMatrix> fitted_to_rounded_map(const DoubleMatrix& weight, const DoubleMatrix& map,
                                           const DoubleMatrix& rounded) {
  return solve_positive(
      identity_plus(rounded, rounded),
      multiply(identity_plus(rounded, map), Transpose::kNo, weight, Transpose::kNo));
}

}  // namespace neuronmm::compress
