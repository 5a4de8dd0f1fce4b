#pragma once
// The Gram matrix of a layer's input, prepared for rounding the weights that read it.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "compress/linear_algebra/linear_algebra.h"

namespace neuronmm::compress {

// All in fp32 and column-major, in units of the mean of the diagonal.
struct RoundingGram {
  // Of [K, K] the lower triangle is read. Refused: NaN, infinity, a negative number on the
  // diagonal, a matrix that has no Cholesky factor when damped.
  static Result<RoundingGram> of(const DoubleMatrix& gram);

  // Per group of columns U of its own part of h, which has U·Uᵀ = h, upper triangular: a part
  // [group, group] after the other, each column-major.
  Result<std::vector<float>> group_roots(int64_t group) const;

  int64_t columns = 0;
  std::vector<float> h;         // [K, K] with the damping, in the order of the columns
  std::vector<float> diagonal;  // of h
  std::vector<int32_t> order;   // columns by falling diagonal
  std::vector<float> upper;     // U [K, K] of h in that order; zeros below the diagonal
};

}  // namespace neuronmm::compress
