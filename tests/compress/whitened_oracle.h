#pragma once
// Oracles for the loss of the best factors of a weight, computed from its definition. The tests
// make random problems whose Gram matrices are given by a root, and compute singular values of the
// whitened weights (oracle.h).

#include <cmath>
#include <random>
#include <vector>

#include "compress/oracle.h"

namespace neuronmm::compress {

inline DoubleMatrix rounded_doubles(const LongMatrix& a) {
  DoubleMatrix out(a.rows, a.columns);
  for (int64_t i = 0; i < out.size(); ++i) {
    out.data()[i] = static_cast<double>(a.values[static_cast<size_t>(i)]);
  }
  return out;
}

inline LongMatrix flipped(const LongMatrix& a) {
  LongMatrix out(a.columns, a.rows);
  for (int64_t j = 0; j < a.columns; ++j) {
    for (int64_t i = 0; i < a.rows; ++i) out(j, i) = a(i, j);
  }
  return out;
}

// Returns a random root. Its square Q·diag(s²)·Qᵀ has the condition number `kappa`, apart from the
// last `null` directions, which have s = 0: the text never visits them.
inline LongMatrix graded_root(int64_t n, double kappa, int64_t null, std::mt19937_64& random) {
  LongMatrix root = random_orthonormal(n, n, random);
  for (int64_t j = 0; j < n; ++j) {
    const double size =
        j >= n - null ? 0.0
                      : std::pow(kappa, -0.5 * static_cast<double>(j) / static_cast<double>(n - 1));
    for (int64_t i = 0; i < n; ++i) root(i, j) *= size;
  }
  return root;
}

inline DoubleMatrix gram_of_root(const LongMatrix& root) {
  return rounded_doubles(root * flipped(root));
}

inline std::vector<double> random_weights(int64_t count, std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform(0.1, 2.0);
  std::vector<double> out(static_cast<size_t>(count));
  for (double& value : out) value = uniform(random);
  return out;
}

// Returns the matrices below each other, each row multiplied by the square root of its weight.
inline LongMatrix stacked(const std::vector<LongMatrix>& matrices,
                          const std::vector<std::vector<double>>& row_weights) {
  int64_t rows = 0;
  for (const LongMatrix& matrix : matrices) rows += matrix.rows;
  LongMatrix out(rows, matrices.at(0).columns);
  int64_t first = 0;
  for (size_t m = 0; m < matrices.size(); ++m) {
    for (int64_t i = 0; i < matrices[m].rows; ++i) {
      const long double scale =
          std::sqrt(static_cast<long double>(row_weights[m][static_cast<size_t>(i)]));
      for (int64_t j = 0; j < out.columns; ++j) out(first + i, j) = scale * matrices[m](i, j);
    }
    first += matrices[m].rows;
  }
  return out;
}

// Returns, for every r, half of the energy of the singular values after the first r.
inline std::vector<double> losses_of_ranks(const LongMatrix& whitened) {
  const std::vector<double> values = jacobi_singular_values(whitened);
  std::vector<double> loss;
  for (int64_t rank = 0; rank <= std::ssize(values); ++rank) {
    loss.push_back(0.5 * energy_beyond(values, rank));
  }
  return loss;
}

// Returns the X with a·X = b, by Gaussian elimination with partial pivoting.
inline LongMatrix solved(LongMatrix a, LongMatrix b) {
  for (int64_t k = 0; k < a.columns; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < a.rows; ++i) {
      if (std::abs(a(i, k)) > std::abs(a(pivot, k))) pivot = i;
    }
    for (int64_t j = 0; j < a.columns; ++j) std::swap(a(k, j), a(pivot, j));
    for (int64_t j = 0; j < b.columns; ++j) std::swap(b(k, j), b(pivot, j));
    for (int64_t i = 0; i < a.rows; ++i) {
      if (i == k) continue;
      const long double factor = a(i, k) / a(k, k);
      for (int64_t j = k; j < a.columns; ++j) a(i, j) -= factor * a(k, j);
      for (int64_t j = 0; j < b.columns; ++j) b(i, j) -= factor * b(k, j);
    }
  }
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < b.columns; ++j) b(i, j) /= a(i, i);
  }
  return b;
}

}  // namespace neuronmm::compress
