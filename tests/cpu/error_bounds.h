#pragma once
// Naive fp64 products that carry along a bound on the error of the same computation in fp32. Tests
// of the CPU kernels compare with them.
//
// A sum of n products computed in fp32 in any order has an error of about sqrt(n) roundings of its
// absolute sum. The product of the norms bounds that sum: |error| <= c · sqrt(n) · u · |x| · |w|
// with u = 2^-24. For random data c = 6 fails with a probability below 1e-7 per element. Source:
// Higham and Mary, SIAM J. Sci. Comput. 41, 2019.

#include <algorithm>
#include <cmath>
#include <numeric>
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

// With bf16 weights and an instruction for products of bf16, x is rounded, too, by up to 2^-8 of
// its value. If x is known exactly, its rounded value is, too.
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

inline double dot(const double* x, const double* y, int64_t n) {
  return std::transform_reduce(x, x + n, y, 0.0);
}

// Returns the value of each product, and in its error what the errors of x contribute.
// `for_row(j, w)` is called with each row of the weight and the magnitudes of its elements.
template <typename Weight, typename ForRow>
Bounded multiply_exactly(const Bounded& x, const Weight& w_t, const ForRow& for_row) {
  const int64_t k = x.columns, n = w_t.rows();
  Bounded y(x.rows, n);
  std::vector<double> w(static_cast<size_t>(k)), magnitudes(static_cast<size_t>(k));
  const bool exact = std::ranges::all_of(x.error, [](double error) { return error == 0; });
  for (int64_t j = 0; j < n; ++j) {
    to_doubles(w_t, j * k, k, w.data());
    std::ranges::transform(w, magnitudes.begin(), [](double wl) { return std::abs(wl); });
    for (int64_t i = 0; i < x.rows; ++i) {
      y.at(y.value, i, j) = dot(x.value.data() + i * k, w.data(), k);
      if (!exact) y.at(y.error, i, j) = dot(x.error.data() + i * k, magnitudes.data(), k);
    }
    for_row(j, magnitudes.data());
  }
  return y;
}

inline Bounded multiply(const Bounded& activations, const TensorView& w_t) {
  const bool rounded = w_t.dtype == DType::kBF16 && current_rounds_to_bf16;
  const Bounded x = rounded ? rounded_to_bf16(activations) : activations;
  const int64_t k = x.columns;
  std::vector<double> weights(static_cast<size_t>(w_t.rows()));
  Bounded y = multiply_exactly(
      x, w_t, [&](int64_t j, const double* w) { weights[static_cast<size_t>(j)] = dot(w, w, k); });
  for (int64_t i = 0; i < y.rows; ++i) {
    const double* const row = x.value.data() + i * k;
    const double of_x = dot(row, row, k);
    for (int64_t j = 0; j < y.columns; ++j) {
      y.at(y.error, i, j) += sum_error(k) * std::sqrt(of_x * weights[static_cast<size_t>(j)]);
    }
  }
  return y;
}

// With an int8 weight, x is rounded, too. In each group it becomes multiples of max |x| / 127, so
// the error is at most half of that. The rounding of the scale and of its inverse adds at most 127
// · 4 roundings. Sums over groups have (groups + 3) roundings. For a fine input the rest is rounded
// as well and summed over as many groups, and subtracting it from x rounds x once.
inline Bounded multiply_int8(const Bounded& x, const ops::WeightView& w_t, bool fine = false) {
  const int64_t k = x.columns, group = ops::kQuantGroup, groups = (k + group - 1) / group;
  Bounded largest(x.rows, groups), weights(w_t.rows(), groups);  // of each group
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t l = 0; l < k; ++l) {
      double& so_far = largest.at(largest.value, i, l / group);
      so_far = std::max(so_far, std::abs(x.at(x.value, i, l)) + x.at(x.error, i, l));
    }
  }
  Bounded y = multiply_exactly(x, w_t, [&](int64_t j, const double* w) {
    for (int64_t l = 0; l < k; ++l) weights.at(weights.value, j, l / group) += w[l];
  });
  const double of_one = (1 + 127 * 8 * kUnit) / 254;
  const double of_input = fine ? of_one * of_one + 2 * kUnit : of_one;
  const double of_sums = static_cast<double>((fine ? 2 : 1) * groups + 3) * kUnit;
  for (int64_t i = 0; i < y.rows; ++i) {
    for (int64_t j = 0; j < y.columns; ++j) {
      const double absolute =
          dot(largest.value.data() + i * groups, weights.value.data() + j * groups, groups);
      y.at(y.error, i, j) += (of_input + of_sums) * absolute;
    }
  }
  return y;
}

inline Bounded multiply(const Bounded& x, const ops::WeightView& w_t) {
  return w_t.quantized() ? multiply_int8(x, w_t) : multiply(x, static_cast<const TensorView&>(w_t));
}

// Returns the columns of x that are pivots, or the others.
inline Bounded columns_of(const Bounded& x, const ops::Pivots& pivots, bool of_pivots) {
  std::vector<int64_t> columns;
  for (int32_t j = 0; j < x.columns; ++j) {
    if (std::ranges::binary_search(pivots.index, j) == of_pivots) columns.push_back(j);
  }
  Bounded out(x.rows, std::ssize(columns));
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t j = 0; j < out.columns; ++j) {
      out.at(out.value, i, j) = x.at(x.value, i, columns[static_cast<size_t>(j)]);
      out.at(out.error, i, j) = x.at(x.error, i, columns[static_cast<size_t>(j)]);
    }
  }
  return out;
}

// The sum over the others starts with the pivots, so each rounding may be of one pivot more. With
// int8 maps there is a rounding per group.
inline Bounded narrow_input(const Bounded& x, const ops::Pivots& pivots) {
  if (pivots.empty()) return x;
  const Bounded kept = columns_of(x, pivots, true), others = columns_of(x, pivots, false);
  Bounded t = multiply(others, pivots.map_t);
  const double roundings = sum_error(others.columns) +
                           kUnit * static_cast<double>(others.columns / ops::kQuantGroup + 3);
  for (size_t i = 0; i < t.value.size(); ++i) {
    t.value[i] += kept.value[i];
    t.error[i] += kept.error[i] + roundings * std::abs(kept.value[i]);
  }
  return t;
}

inline Bounded widen_output(const Bounded& z, const ops::Pivots& pivots) {
  if (pivots.empty()) return z;
  const Bounded rest = multiply(z, pivots.map_t);
  Bounded y(z.rows, z.columns + rest.columns);
  int64_t pivot = 0, other = 0;
  for (int32_t j = 0; j < y.columns; ++j) {
    const bool is_pivot = std::ranges::binary_search(pivots.index, j);
    const Bounded& from = is_pivot ? z : rest;
    const int64_t column = is_pivot ? pivot++ : other++;
    for (int64_t i = 0; i < y.rows; ++i) {
      y.at(y.value, i, j) = from.at(from.value, i, column);
      y.at(y.error, i, j) = from.at(from.error, i, column);
    }
  }
  return y;
}

inline Bounded multiply(const Bounded& x, const ops::LinearWeight& weight) {
  Bounded y = weight.round_input_twice && weight.quantized() ? multiply_int8(x, weight.w_t, true)
              : weight.low_rank()
                  ? multiply(multiply(x, weight.u_t), weight.v_t)
                  : widen_output(multiply(narrow_input(x, weight.in), weight.w_t), weight.out);
  if (weight.bias.empty()) return y;
  std::vector<double> bias(static_cast<size_t>(y.columns));
  to_doubles(weight.bias, 0, y.columns, bias.data());
  for (int64_t i = 0; i < y.rows; ++i) {
    for (int64_t j = 0; j < y.columns; ++j) {
      // The sum starts with the bias, so each rounding may be of |bias| more.
      const double b = bias[static_cast<size_t>(j)];
      y.at(y.value, i, j) += b;
      y.at(y.error, i, j) +=
          sum_error(weight.low_rank() ? weight.rank() : weight.in_features()) * std::abs(b);
    }
  }
  return y;
}

// Returns silu(gate) * up. silu is Lipschitz with constant 1.1. exp with an error of 1 ulp, an
// addition, a division and a multiplication stay within 6 roundings.
inline Bounded silu_multiply(const Bounded& gate, const Bounded& up) {
  Bounded y(up.rows, up.columns);
  for (size_t i = 0; i < y.value.size(); ++i) {
    const double g = gate.value[i], silu = g / (1 + std::exp(-g));
    const double silu_error = 1.1 * gate.error[i] + 6 * kUnit * std::abs(silu);
    y.value[i] = silu * up.value[i];
    y.error[i] = silu_error * (std::abs(up.value[i]) + up.error[i]) + std::abs(silu) * up.error[i] +
                 kUnit * std::abs(y.value[i]);
  }
  return y;
}

inline Bounded mlp(const Bounded& x, const ops::MlpWeight& weight) {
  const Bounded t = narrow_input(x, weight.in);
  return multiply(silu_multiply(multiply(t, weight.gate), multiply(t, weight.up)), weight.down);
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
