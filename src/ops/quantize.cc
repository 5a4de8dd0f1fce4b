#include "ops/quantize.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"

namespace neuronmm::ops {
namespace {

// Symmetric: -128 is not used, so that a value and its negative have the same error.
constexpr double kLargest = 127.0;

// max |value|, which NaN and infinity turn into NaN.
double largest_of(const double* values, int64_t count) {
  double largest = 0, not_finite = 0;
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::abs(values[i]));
    not_finite += 0 * values[i];
  }
  return largest + not_finite;
}

// One group; a scale of 0 (all zeros, or so small that bf16 has no such scale) gives zeros.
bf16 quantize_group(const double* values, int64_t count, int8_t* quantized) {
  const double largest = largest_of(values, count);
  // The scale is rounded first, and the values are divided by the rounded one: the error of
  // rounding the scale is then part of what rounding the values makes good.
  const bf16 scale = bf16::from_float(static_cast<float>(largest / kLargest));
  const auto step = static_cast<double>(scale.to_float());  // of NaN, "step > 0" is false
  for (int64_t i = 0; i < count; ++i) {
    const double steps = step > 0 ? std::nearbyint(values[i] / step) : 0.0;
    quantized[i] = static_cast<int8_t>(std::clamp(steps, -kLargest, kLargest));
  }
  return scale;
}

// row(i, values) gives the row's fp64 values.
template <typename Row>
QuantizedWeight quantize_rows(int64_t rows, int64_t columns, const Row& row) {
  QuantizedWeight weight = {rows, columns, {}, {}};
  weight.values.resize(static_cast<size_t>(rows * columns));
  weight.scales.resize(static_cast<size_t>(rows * weight.groups()));
  // A group's scale depends on its own row alone, so that rows are shared out among the threads.
  parallel_ranges(rows, [&](int64_t first_row, int64_t last_row) {
    std::vector<double> values(static_cast<size_t>(columns));
    for (int64_t i = first_row; i < last_row; ++i) {
      row(i, values.data());
      for (int64_t g = 0; g < weight.groups(); ++g) {
        const int64_t first = g * kQuantGroup;
        weight.scales[static_cast<size_t>(i * weight.groups() + g)] =
            quantize_group(values.data() + first, std::min(kQuantGroup, columns - first),
                           weight.values.data() + i * columns + first);
      }
    }
  });
  return weight;
}

}  // namespace

WeightView QuantizedWeight::view() const {
  return {{DType::kI8, {rows, columns}, reinterpret_cast<const std::byte*>(values.data())},
          {DType::kBF16, {rows, groups()}, reinterpret_cast<const std::byte*>(scales.data())}};
}

QuantizedWeight quantize(const TensorView& weight) {
  const int64_t columns = weight.columns();
  return quantize_rows(weight.rows(), columns, [&](int64_t i, double* values) {
    neuronmm::to_doubles(weight, i * columns, columns, values);
  });
}

QuantizedWeight quantize(const double* values, int64_t rows, int64_t columns) {
  return quantize_rows(rows, columns, [&](int64_t i, double* row) {
    std::copy_n(values + i * columns, columns, row);
  });
}

}  // namespace neuronmm::ops
