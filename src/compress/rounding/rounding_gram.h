#pragma once
// Prepares the Gram matrix of a layer's input for rounding the weights that read this input. One
// RoundingGram serves all weights with the same input. K is the number of columns.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "compress/linear_algebra/linear_algebra.h"

namespace neuronmm::compress {

// A damped Gram matrix and its triangular factor. All values are fp32, column-major, and in units
// of the mean of the undamped diagonal.
struct RoundingGram {
  // Prepares `gram` [K, K], of which only the lower triangle is read. Fails if it holds NaN,
  // infinity or a negative number on the diagonal, or if it has no Cholesky factor after damping.
  static Result<RoundingGram> prepare(const DoubleMatrix& gram);

  // Returns, for each group of `group` columns, the upper triangular U with U·Uᵀ equal to the
  // group's diagonal block of h. The blocks [group, group] follow each other, each column-major.
  Result<std::vector<float>> group_roots(int64_t group) const;

  int64_t columns = 0;
  std::vector<float> h;         // [K, K], damped, in the order of the columns
  std::vector<float> diagonal;  // the diagonal of h
  std::vector<int32_t> order;   // the columns by falling diagonal
  // [K, K], upper triangular: U with U·Uᵀ = h, with rows and columns of h in `order`. Zeros below
  // the diagonal.
  std::vector<float> upper;
};

}  // namespace neuronmm::compress
