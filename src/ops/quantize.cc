#include "ops/quantize.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "ops/round_to_bytes.h"
#include "ops/scale_search.h"

namespace neuronmm::ops {
namespace {

// The largest byte. The byte -128 is not used, so that a value and its negative have the same
// error.
constexpr double kLargest = 127.0;

// Returns max |value|, or NaN if a value is NaN or infinite.
template <typename Value>
Value largest_of(const Value* values, int64_t count) {
  Value largest = 0, not_finite = 0;
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::abs(values[i]));
    not_finite += 0 * values[i];
  }
  return largest + not_finite;
}

QuantizedWeight empty_weight(int64_t rows, int64_t columns, const LowBitFormat& format) {
  QuantizedWeight weight = {rows, columns, {}, {}, format};
  weight.values.resize(static_cast<size_t>(rows * stored_row_bytes(format, columns)));
  weight.scales.resize(static_cast<size_t>(rows * weight.groups()));
  weight.multipliers.resize(static_cast<size_t>(rows * groups_of_row(format, columns)));
  return weight;
}

// Rounds one group to 8 bits and returns its scale. The scale is 0 if all values are 0, or so small
// that bf16 cannot hold their scale. All bytes are then 0.
bf16 quantize_group(const double* values, int64_t count, int8_t* quantized) {
  const double largest = largest_of(values, count);
  // The values are divided by the rounded scale, so that rounding them also makes up for the error
  // of rounding the scale.
  const bf16 scale = bf16::from_float(static_cast<float>(largest / kLargest));
  const auto step = static_cast<double>(scale.to_float());  // if NaN, "step > 0" is false
  for (int64_t i = 0; i < count; ++i) {
    const double steps = step > 0 ? std::nearbyint(values[i] / step) : 0.0;
    quantized[i] = static_cast<int8_t>(std::clamp(steps, -kLargest, kLargest));
  }
  return scale;
}

// The memory of one rounded row.
struct RowTarget {
  int8_t* values;
  bf16* scales;
  uint8_t* multipliers;
};

bf16 quantize_group(const float* values, int64_t count, int8_t* quantized) {
  return round_to_bytes(values, count, quantized);
}

template <typename Value>
void round_to_8bits(const Value* values, int64_t columns, RowTarget to) {
  for (int64_t first = 0; first < columns; first += kQuantGroup) {
    const int64_t count = std::min(kQuantGroup, columns - first);
    *to.scales++ = quantize_group(values + first, count, to.values + first);
  }
}

// Chooses the scale of values that share it and, in 4 bits, the multipliers and zero points of
// their groups.
void choose_grid(const float* values, int64_t count, const LowBitFormat& format, bf16* scale,
                 uint8_t* multipliers) {
  if (format.bits == 6) {
    *scale = scale_of_6bits(values, count);
    return;
  }
  const GridOf4Bits grid = grid_of_4bits(values, count, format.group);
  *scale = grid.scale;
  for (int64_t j = 0; j < count; j += format.group) {
    *multipliers++ = grid.groups[static_cast<size_t>(j / format.group)].stored();
  }
}

void choose_codes(const float* values, int64_t count, const LowBitFormat& format, float scale,
                  const uint8_t* multipliers, uint8_t* q) {
  if (format.bits == 6) return codes_of_6bits(values, count, scale, q);
  for (int64_t j = 0; j < count; j += format.group) {
    codes_of_4bits(values + j, std::min(format.group, count - j), scale,
                   GroupOf4Bits::of(multipliers[j / format.group]), q + j);
  }
}

// Rounds a row to 6 or 4 bits. If `choose` is false, `to` already holds the scales and multipliers.
template <typename Value>
void round_to_few_bits(const Value* values, int64_t columns, const LowBitFormat& format,
                       bool choose, RowTarget to) {
  const std::vector<float> floats(values, values + columns);
  std::vector<uint8_t> q(floats.size());
  for (int64_t first = 0; first < columns; first += kQuantGroup, ++to.scales) {
    const int64_t count = std::min(kQuantGroup, columns - first);
    const float* const from = floats.data() + first;
    if (!std::isfinite(static_cast<float>(largest_of(values + first, count)))) {
      *to.scales = bf16::from_float(NAN);
      continue;
    }
    uint8_t* const multipliers = format.bits == 4 ? to.multipliers + first / format.group : nullptr;
    if (choose) choose_grid(from, count, format, to.scales, multipliers);
    choose_codes(from, count, format, to.scales->to_float(), multipliers, q.data() + first);
  }
  store_codes(format.bits, q.data(), columns, reinterpret_cast<uint8_t*>(to.values));
}

// Rounds every row of a weight. row(i, values) writes the values of row i. If there is a `grid`,
// its scales and multipliers are kept, and only codes are chosen.
template <typename Value, typename Row>
QuantizedWeight quantize_rows(int64_t rows, int64_t columns, const LowBitFormat& format,
                              const Row& row, const QuantizedWeight* grid = nullptr) {
  QuantizedWeight weight = empty_weight(rows, columns, format);
  if (grid != nullptr) {
    NMM_CHECK(grid->scales.size() == weight.scales.size() &&
              grid->multipliers.size() == weight.multipliers.size());
    weight.scales = grid->scales;
    weight.multipliers = grid->multipliers;
  }
  // No scale depends on another row, so that threads can take different rows.
  parallel_ranges(rows, [&](int64_t first_row, int64_t last_row) {
    std::vector<Value> values(static_cast<size_t>(columns));
    for (int64_t i = first_row; i < last_row; ++i) {
      const RowTarget to = {weight.values.data() + i * stored_row_bytes(format, columns),
                            weight.scales.data() + i * weight.groups(),
                            weight.multipliers.data() + i * groups_of_row(format, columns)};
      row(i, values.data());
      if (format.bits == 8) {
        round_to_8bits(values.data(), columns, to);
      } else {
        round_to_few_bits(values.data(), columns, format, grid == nullptr, to);
      }
    }
  });
  return weight;
}

}  // namespace

WeightView QuantizedWeight::view() const {
  WeightView weight(
      format, {rows, columns}, reinterpret_cast<const std::byte*>(values.data()),
      {DType::kBF16, {rows, groups()}, reinterpret_cast<const std::byte*>(scales.data())});
  if (format.bits == 4) {
    weight.groups = {DType::kU8,
                     {rows, groups_of_row(format, columns)},
                     reinterpret_cast<const std::byte*>(multipliers.data())};
  }
  return weight;
}

QuantizedWeight pack_codes(const Codes& codes) {
  QuantizedWeight weight = empty_weight(codes.rows, codes.columns, codes.format);
  NMM_CHECK(codes.scales.size() == weight.scales.size() &&
            codes.groups.size() == weight.multipliers.size());
  weight.scales = codes.scales;
  weight.multipliers = codes.groups;
  const int64_t row_bytes = stored_row_bytes(codes.format, codes.columns);
  for (int64_t i = 0; i < codes.rows; ++i) {
    store_codes(codes.format.bits, codes.q.data() + i * codes.columns, codes.columns,
                reinterpret_cast<uint8_t*>(weight.values.data() + i * row_bytes));
  }
  return weight;
}

QuantizedWeight quantize(const TensorView& weight, const LowBitFormat& format) {
  const int64_t columns = weight.columns();
  if (weight.dtype == DType::kF64) {
    return quantize_rows<double>(weight.rows(), columns, format, [&](int64_t i, double* values) {
      neuronmm::to_doubles(weight, i * columns, columns, values);
    });
  }
  return quantize_rows<float>(weight.rows(), columns, format, [&](int64_t i, float* values) {
    neuronmm::to_floats(weight, i * columns, columns, values);
  });
}

QuantizedWeight quantize_onto(const TensorView& weight, const QuantizedWeight& grid) {
  NMM_CHECK(grid.format.bits < 8);
  const int64_t columns = weight.columns();
  return quantize_rows<double>(
      weight.rows(), columns, grid.format,
      [&](int64_t i, double* values) {
        neuronmm::to_doubles(weight, i * columns, columns, values);
      },
      &grid);
}

QuantizedWeight quantize(const double* values, int64_t rows, int64_t columns,
                         const LowBitFormat& format) {
  return quantize_rows<double>(rows, columns, format, [&](int64_t i, double* row) {
    std::copy_n(values + i * columns, columns, row);
  });
}

}  // namespace neuronmm::ops
