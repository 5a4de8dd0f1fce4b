#include "compress/rounding/stored_format.h"

#include <cmath>

#include "base/tensor.h"

namespace neuronmm::compress {
namespace {

// Returns the value that is largest by magnitude, or NaN if there is one.
template <typename T>
double largest_of(std::span<const T> values) {
  T largest = 0;
  for (const T value : values) {
    if (!(std::abs(value) <= std::abs(largest))) largest = value;
    if (std::isnan(largest)) break;
  }
  return largest;
}

Status check_largest(const std::string& where, double exact, DType dtype) {
  DoubleMatrix largest(1, 1);
  largest(0, 0) = exact;
  round_to(dtype, largest);
  if (largest.all_finite()) return {};
  return fail("{}: {:.6g} is beyond the range of {}", where, exact, dtype_name(dtype));
}

}  // namespace

StoredFormat stored_format(const WeightFormats& weights, DType weight) {
  if (weights) return weights->linear;
  return written_dtype(weight);
}

StoredFormat map_format(const StoredFormat& weight) {
  return std::holds_alternative<LowBitFormat>(weight) ? kMapFormat : weight;
}

DType staged_dtype(const StoredFormat& format) {
  const DType* const dtype = std::get_if<DType>(&format);
  return dtype != nullptr ? *dtype : DType::kF32;
}

Status check_range(const std::string& where, const DoubleMatrix& values, DType dtype) {
  return check_largest(
      where, largest_of<double>(std::span(values.data(), static_cast<size_t>(values.size()))),
      dtype);
}

Status check_range(const std::string& where, std::span<const float> values, DType dtype) {
  return check_largest(where, largest_of(values), dtype);
}

void round_to(const StoredFormat& format, DoubleMatrix& matrix) {
  std::visit([&](const auto& of) { round_to(of, matrix); }, format);
}

std::vector<std::byte> stored_values(const StoredFormat& format, DoubleMatrix staged) {
  if (std::holds_alternative<LowBitFormat>(format)) round_to(format, staged);
  return to_checkpoint(staged, staged_dtype(format));
}

}  // namespace neuronmm::compress
