#include "compress/refit.h"

#include <algorithm>

namespace neuronmm::compress {

// The map M that guesses the targets from what is there: M = I + (C - G)(G + λ I)⁻¹, with G the
// Gram matrix of what is there and C its product with the targets. The ridge λ, a share of the mean
// eigenvalue, pulls M towards the identity where G says little. G's eigenvectors turn the inverse
// into a division.
DoubleMatrix refit_map(const DoubleMatrix& gram, const SymmetricEigen& eigen,
                       const DoubleMatrix& cross, double ridge) {
  const int64_t n = gram.rows();
  NMM_CHECK(cross.rows() == n && cross.columns() == n);
  double trace = 0.0;
  for (int64_t i = 0; i < n; ++i) trace += gram(i, i);
  const double lambda = ridge * trace / static_cast<double>(n);

  DoubleMatrix map(n, n);
  for (int64_t i = 0; i < n; ++i) map(i, i) = 1.0;
  if (lambda <= 0.0) return map;  // no activation at all
  DoubleMatrix difference = cross;
  for (int64_t i = 0; i < gram.size(); ++i) difference.data()[i] -= gram.data()[i];
  DoubleMatrix rotated = multiply(difference, Transpose::kNo, eigen.vectors, Transpose::kNo);
  for (int64_t j = 0; j < n; ++j) {
    const double value = std::max(eigen.values[static_cast<size_t>(j)], 0.0);
    rotated.scale_column(j, 1.0 / (value + lambda));
  }
  const DoubleMatrix change = multiply(rotated, Transpose::kNo, eigen.vectors, Transpose::kYes);
  for (int64_t i = 0; i < map.size(); ++i) map.data()[i] += change.data()[i];
  return map;
}

}  // namespace neuronmm::compress
