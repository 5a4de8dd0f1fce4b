#include "compress/stored_format.h"

#include <cmath>

#include "base/tensor.h"

namespace neuronmm::compress {

StoredFormat stored_format(const WeightFormats& weights, DType weight) {
  if (weights) return weights->linear;
  return weight;
}

StoredFormat map_format(const StoredFormat& weight) {
  return std::holds_alternative<LowBitFormat>(weight) ? kMapFormat : weight;
}

DType staged_dtype(const StoredFormat& format) {
  const DType* const dtype = std::get_if<DType>(&format);
  return dtype != nullptr ? *dtype : DType::kF32;
}

Status check_range(const std::string& where, const DoubleMatrix& values, DType dtype) {
  DoubleMatrix largest(1, 1);
  for (int64_t i = 0; i < values.size(); ++i) {
    const double value = values.data()[i];
    if (std::isnan(value)) return fail("{}: expected numbers, found NaN", where);
    if (std::abs(value) > std::abs(largest(0, 0))) largest(0, 0) = value;
  }
  const double exact = largest(0, 0);
  round_to(dtype, largest);
  if (largest.all_finite()) return {};
  return fail("{}: {:.6g} is beyond the range of {}", where, exact, dtype_name(dtype));
}

void round_to(const StoredFormat& format, DoubleMatrix& matrix) {
  std::visit([&](const auto& of) { round_to(of, matrix); }, format);
}

std::vector<std::byte> stored_values(const StoredFormat& format, DoubleMatrix staged) {
  if (std::holds_alternative<LowBitFormat>(format)) round_to(format, staged);
  return to_checkpoint(staged, staged_dtype(format));
}

}  // namespace neuronmm::compress
