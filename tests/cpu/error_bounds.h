#pragma once
// Naive fp64 products that carry along how far an fp32 computation of the same may be off.
//
// A sum of n products computed in fp32 in any order is off by about sqrt(n) roundings of its
// absolute sum, which the product of the norms bounds: |error| <= c · sqrt(n) · u · |x| · |w| with
// u = 2^-24. By Higham and Mary (SIAM J. Sci. Comput. 41, 2019) c = 6 fails with a probability
// below 1e-7 per element for random data.

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "base/float16.h"
#include "base/tensor.h"
#include "cpu/current_kernels.h"
#include "cpu/kernels.h"
#include "ops/weights.h"

namespace neuronmm::cpu {

inline constexpr double kUnit = 0x1p-24;
inline double sum_error(int64_t terms) {
  return 6.0 * std::sqrt(static_cast<double>(terms)) * kUnit;
}

struct Bounded {
  Bounded(int64_t r, int64_t c)
      : rows(r), columns(c), value(static_cast<size_t>(r * c)), error(static_cast<size_t>(r * c)) {}
  explicit Bounded(ConstMatrixView x) : Bounded(x.rows, x.columns) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) at(value, i, j) = x.row(i)[j];
    }
  }
  double& at(std::vector<double>& v, int64_t i, int64_t j) const {
    return v[static_cast<size_t>(i * columns + j)];
  }
  double at(const std::vector<double>& v, int64_t i, int64_t j) const {
    return v[static_cast<size_t>(i * columns + j)];
  }

  int64_t rows, columns;
  std::vector<double> value, error;
};

// With bf16 weights and an instruction for dot products of bf16, x is rounded too, by up to 2^-8 of
// it. Where x is known exactly, so is what it is rounded to.
inline Bounded rounded_to_bf16(Bounded x) {
  for (size_t i = 0; i < x.value.size(); ++i) {
    if (x.error[i] == 0) {
      x.value[i] = bf16::from_float(static_cast<float>(x.value[i])).to_float();
    } else {
      x.error[i] += 0x1p-8 * (std::abs(x.value[i]) + x.error[i]);
    }
  }
  return x;
}

inline Bounded multiply(const Bounded& activations, const TensorView& w_t) {
  const bool rounded =
      w_t.dtype == DType::kBF16 && current_kernels().dot_products == DotProducts::kInt8AndBf16;
  const Bounded x = rounded ? rounded_to_bf16(activations) : activations;
  const int64_t k = x.columns, n = w_t.rows();
  Bounded y(x.rows, n);
  std::vector<double> w(static_cast<size_t>(k));
  for (int64_t j = 0; j < n; ++j) {
    to_doubles(w_t, j * k, k, w.data());
    for (int64_t i = 0; i < x.rows; ++i) {
      double sum = 0, carried = 0, xx = 0, ww = 0;
      for (int64_t l = 0; l < k; ++l) {
        const double xl = x.at(x.value, i, l), wl = w[static_cast<size_t>(l)];
        sum += xl * wl;
        carried += x.at(x.error, i, l) * std::abs(wl);
        xx += xl * xl;
        ww += wl * wl;
      }
      y.at(y.value, i, j) = sum;
      y.at(y.error, i, j) = carried + sum_error(k) * std::sqrt(xx * ww);
    }
  }
  return y;
}

// With an int8 weight, x is rounded too: in each group to multiples of max |x| / 127 of the group,
// so by up to half of that (and the rounding of the scale and of its inverse, 127 · 4 of them at
// most). The sums over groups are of (groups + 3) roundings.
inline Bounded multiply_int8(const Bounded& x, const ops::WeightView& w_t) {
  const int64_t k = x.columns, n = w_t.rows(), group = ops::kQuantGroup;
  Bounded y(x.rows, n);
  std::vector<double> w(static_cast<size_t>(k));
  for (int64_t j = 0; j < n; ++j) {
    to_doubles(w_t, j * k, k, w.data());
    for (int64_t i = 0; i < x.rows; ++i) {
      double sum = 0, error = 0, absolute = 0;
      for (int64_t first = 0; first < k; first += group) {
        double largest = 0, weights = 0;
        for (int64_t l = first; l < std::min(k, first + group); ++l) {
          const double xl = x.at(x.value, i, l), wl = w[static_cast<size_t>(l)];
          largest = std::max(largest, std::abs(xl) + x.at(x.error, i, l));
          weights += std::abs(wl);
          sum += xl * wl;
          error += x.at(x.error, i, l) * std::abs(wl);
        }
        error += largest * weights / 254 * (1 + 127 * 8 * kUnit);
        absolute += largest * weights;
      }
      const auto roundings = static_cast<double>((k + group - 1) / group + 3);
      y.at(y.value, i, j) = sum;
      y.at(y.error, i, j) = error + roundings * kUnit * absolute;
    }
  }
  return y;
}

inline Bounded multiply(const Bounded& x, const ops::WeightView& w_t) {
  return w_t.quantized() ? multiply_int8(x, w_t) : multiply(x, static_cast<const TensorView&>(w_t));
}

inline Bounded multiply(const Bounded& x, const ops::LinearWeight& weight) {
  Bounded y =
      weight.low_rank() ? multiply(multiply(x, weight.u_t), weight.v_t) : multiply(x, weight.w_t);
  if (weight.bias.empty()) return y;
  std::vector<double> bias(static_cast<size_t>(y.columns));
  to_doubles(weight.bias, 0, y.columns, bias.data());
  for (int64_t i = 0; i < y.rows; ++i) {
    for (int64_t j = 0; j < y.columns; ++j) {
      // The bias is where the sum starts, so each rounding may be of |bias| more.
      const double b = bias[static_cast<size_t>(j)];
      y.at(y.value, i, j) += b;
      y.at(y.error, i, j) +=
          sum_error(weight.low_rank() ? weight.rank() : weight.in_features()) * std::abs(b);
    }
  }
  return y;
}

inline void expect_within(const Bounded& expected, ConstMatrixView found) {
  ASSERT_EQ(found.rows, expected.rows);
  ASSERT_EQ(found.columns, expected.columns);
  for (int64_t i = 0; i < found.rows; ++i) {
    for (int64_t j = 0; j < found.columns; ++j) {
      const double value = expected.at(expected.value, i, j);
      ASSERT_NEAR(found.row(i)[j], value,
                  expected.at(expected.error, i, j) + 2 * kUnit * std::abs(value))
          << "at " << i << ", " << j;
    }
  }
}

}  // namespace neuronmm::cpu
