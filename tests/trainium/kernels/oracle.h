#pragma once
// Computes in fp64, by plain loops, what a chain of matmuls should give, with a bound on the error
// of the machine's result. The tests of kernels and of the reference library compare values with
// it.

#include <cmath>
#include <cstdint>
#include <random>

#include "base/float16.h"
#include "base/tensor.h"

namespace neuronmm::kernels {

inline constexpr double kFp32 = 0x1p-24, kBf16 = 0x1p-8;  // Unit roundoffs.

// Values ± errors, elementwise.
struct Bounded {
  int64_t rows = 0, columns = 0;
  std::vector<double> value, error;

  Bounded(int64_t r, int64_t c)
      : rows(r), columns(c), value(static_cast<size_t>(r * c)), error(value.size()) {}
  explicit Bounded(const Matrix& exact) : Bounded(exact.rows(), exact.columns()) {
    for (size_t i = 0; i < value.size(); ++i) value[i] = static_cast<double>(exact.data()[i]);
  }
};

// The roundings of one contraction: `blocks` sums in `accumulate`, and a result in `result`.
struct Rounding {
  DType accumulate, result;
  int64_t blocks;

  double unit(int64_t K) const {
    const double products = 1.02 * static_cast<double>(K + blocks) * kFp32;
    const double sums = accumulate == DType::kBF16 ? static_cast<double>(blocks) * kBf16 : 0.0;
    return products + 1.02 * sums + (result == DType::kBF16 ? 1.02 * kBf16 : 0.0);
  }
};

// Returns `start` + a · w. Each sum begins at its element of `start`, which is one more term of it.
inline Bounded multiply_added_to(const Bounded& start, const Bounded& a, const Matrix& w,
                                 const Rounding& rounding) {
  const bool from_zero = start.rows == 0;
  Bounded product = from_zero ? Bounded(a.rows, w.columns()) : start;
  const double unit = rounding.unit(a.columns + (from_zero ? 0 : 1));
  for (size_t i = 0; i < product.value.size(); ++i) {
    product.error[i] += unit * (std::fabs(product.value[i]) + product.error[i]);
  }
  const int64_t columns = w.columns();
  for (int64_t i = 0; i < a.rows; ++i) {
    double* const sums = product.value.data() + i * columns;
    double* const errors = product.error.data() + i * columns;
    for (int64_t k = 0; k < a.columns; ++k) {
      const auto from = static_cast<size_t>(i * a.columns + k);
      const double value = a.value[from], error = a.error[from];
      const double bound = error + unit * (std::fabs(value) + error);
      const float* const weights = w.row(k);
      for (int64_t j = 0; j < columns; ++j) {
        const auto weight = static_cast<double>(weights[j]);
        sums[j] += value * weight;
        errors[j] += bound * std::fabs(weight);
      }
    }
  }
  return product;
}

inline Bounded multiply(const Bounded& a, const Matrix& w, const Rounding& rounding) {
  return multiply_added_to(Bounded(0, 0), a, w, rounding);
}

// Returns silu(gate) · up, each step rounded to `accumulate`, then to `result`.
inline Bounded gated(const Bounded& gate, const Bounded& up, DType accumulate, DType result) {
  constexpr double kSlope = 1.1;  // |silu'| < 1.0998.
  const double unit =
      (accumulate == DType::kBF16 ? kBf16 : 16 * kFp32) + (result == DType::kBF16 ? kBf16 : kFp32);
  Bounded h(gate.rows, gate.columns);
  for (size_t i = 0; i < h.value.size(); ++i) {
    const double g = gate.value[i], u = up.value[i];
    const double activated = g / (1.0 + std::exp(-g));
    const double activated_error = kSlope * gate.error[i];
    h.value[i] = activated * u;
    h.error[i] =
        activated_error * (std::fabs(u) + up.error[i]) + std::fabs(activated) * up.error[i];
    h.error[i] +=
        1.02 * unit * (std::fabs(activated) + activated_error) * (std::fabs(u) + up.error[i]);
  }
  return h;
}

inline Matrix transpose(const Matrix& matrix) {
  Matrix transposed(matrix.columns(), matrix.rows());
  for (int64_t i = 0; i < matrix.rows(); ++i) {
    for (int64_t j = 0; j < matrix.columns(); ++j) transposed.row(j)[i] = matrix.row(i)[j];
  }
  return transposed;
}

// Returns normal values of about `scale`, already rounded to `dtype`.
inline Matrix random_matrix(int64_t rows, int64_t columns, double scale, DType dtype,
                            std::mt19937& random) {
  std::normal_distribution<float> normal(0.0f, static_cast<float>(scale));
  Matrix matrix(rows, columns);
  for (int64_t i = 0; i < rows * columns; ++i) {
    const float value = normal(random);
    matrix.data()[i] = dtype == DType::kBF16 ? bf16::from_float(value).to_float() : value;
  }
  return matrix;
}

}  // namespace neuronmm::kernels
