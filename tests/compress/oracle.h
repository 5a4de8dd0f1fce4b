#pragma once
// Independent oracles for the tests of factorizations: products in long double, and singular values
// by one-sided Jacobi rotations. That algorithm shares nothing with dgesdd. It finds small singular
// values of matrices with graded columns to high relative accuracy (Demmel and Veselic 1992).

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "compress/linear_algebra/linear_algebra.h"

namespace neuronmm::compress {

// A matrix in long double.
struct LongMatrix {
  int64_t rows = 0, columns = 0;
  std::vector<long double> values;  // column-major

  LongMatrix(int64_t r, int64_t c) : rows(r), columns(c), values(static_cast<size_t>(r * c)) {}
  explicit LongMatrix(const DoubleMatrix& a) : LongMatrix(a.rows(), a.columns()) {
    std::copy_n(a.data(), a.size(), values.begin());
  }
  long double& operator()(int64_t i, int64_t j) {
    return values[static_cast<size_t>(j * rows + i)];
  }
  long double operator()(int64_t i, int64_t j) const {
    return values[static_cast<size_t>(j * rows + i)];
  }
  long double energy() const {
    long double sum = 0;
    for (const long double v : values) sum += v * v;
    return sum;
  }
};

inline LongMatrix operator*(const LongMatrix& a, const LongMatrix& b) {
  LongMatrix c(a.rows, b.columns);
  for (int64_t j = 0; j < b.columns; ++j) {
    for (int64_t k = 0; k < a.columns; ++k) {
      for (int64_t i = 0; i < a.rows; ++i) c(i, j) += a(i, k) * b(k, j);
    }
  }
  return c;
}

inline LongMatrix operator-(LongMatrix a, const LongMatrix& b) {
  for (size_t i = 0; i < a.values.size(); ++i) a.values[i] -= b.values[i];
  return a;
}

// Makes columns p and q orthogonal by one rotation. Returns false if they were orthogonal already.
inline bool rotate(DoubleMatrix& a, int64_t p, int64_t q) {
  double *x = a.column(p), *y = a.column(q);
  double pp = 0, qq = 0, pq = 0;
  for (int64_t i = 0; i < a.rows(); ++i) {
    pp += x[i] * x[i];
    qq += y[i] * y[i];
    pq += x[i] * y[i];
  }
  // An inner product below this bound changes a singular value by a relative amount of at most the
  // bound's square.
  if (std::abs(pq) <= 1e-11 * std::sqrt(pp * qq)) return false;
  const double zeta = (qq - pp) / (2 * pq);
  const double t = (zeta < 0 ? -1 : 1) / (std::abs(zeta) + std::sqrt(1 + zeta * zeta));
  const double c = 1 / std::sqrt(1 + t * t), s = c * t;
  for (int64_t i = 0; i < a.rows(); ++i) {
    const double xi = x[i], yi = y[i];
    x[i] = c * xi - s * yi;
    y[i] = s * xi + c * yi;
  }
  return true;
}

// Returns the singular values in descending order. The columns of `given` are rotated, or those of
// its transpose if that is taller.
inline std::vector<double> jacobi_singular_values(const LongMatrix& given) {
  const bool tall = given.rows >= given.columns;
  DoubleMatrix a(tall ? given.rows : given.columns, tall ? given.columns : given.rows);
  for (int64_t j = 0; j < a.columns(); ++j) {
    for (int64_t i = 0; i < a.rows(); ++i) {
      a(i, j) = static_cast<double>(tall ? given(i, j) : given(j, i));
    }
  }
  bool rotated = true;
  for (int sweep = 0; rotated && sweep < 40; ++sweep) {
    rotated = false;
    for (int64_t p = 0; p + 1 < a.columns(); ++p) {
      for (int64_t q = p + 1; q < a.columns(); ++q) rotated |= rotate(a, p, q);
    }
  }
  std::vector<double> values;
  for (int64_t j = 0; j < a.columns(); ++j) {
    double sum = 0;
    for (int64_t i = 0; i < a.rows(); ++i) sum += a(i, j) * a(i, j);
    values.push_back(std::sqrt(sum));
  }
  std::sort(values.rbegin(), values.rend());
  return values;
}

inline double energy_beyond(const std::vector<double>& singular_values, int64_t rank) {
  double sum = 0.0;
  for (size_t i = singular_values.size(); i-- > static_cast<size_t>(rank);) {
    sum += singular_values[i] * singular_values[i];
  }
  return sum;
}

inline DoubleMatrix random_matrix(int64_t rows, int64_t columns, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  DoubleMatrix out(rows, columns);
  for (int64_t i = 0; i < out.size(); ++i) out.data()[i] = normal(random);
  return out;
}

// Returns a·b by its definition, in fp64.
inline DoubleMatrix naive_product(const DoubleMatrix& a, const DoubleMatrix& b) {
  DoubleMatrix out(a.rows(), b.columns());
  for (int64_t i = 0; i < a.rows(); ++i) {
    for (int64_t j = 0; j < b.columns(); ++j) {
      for (int64_t k = 0; k < a.columns(); ++k) out(i, j) += a(i, k) * b(k, j);
    }
  }
  return out;
}

// Returns random orthonormal columns, made by applying Gram-Schmidt twice.
inline LongMatrix random_orthonormal(int64_t rows, int64_t columns, std::mt19937_64& random) {
  LongMatrix q(random_matrix(rows, columns, random));
  for (int64_t j = 0; j < columns; ++j) {
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t k = 0; k < j; ++k) {
        long double dot = 0;
        for (int64_t i = 0; i < rows; ++i) dot += q(i, k) * q(i, j);
        for (int64_t i = 0; i < rows; ++i) q(i, j) -= dot * q(i, k);
      }
    }
    long double norm = 0;
    for (int64_t i = 0; i < rows; ++i) norm += q(i, j) * q(i, j);
    for (int64_t i = 0; i < rows; ++i) q(i, j) /= std::sqrt(norm);
  }
  return q;
}

}  // namespace neuronmm::compress
