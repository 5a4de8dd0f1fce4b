#include "compress/stored_format.h"

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

void round_to(const StoredFormat& format, DoubleMatrix& matrix) {
  std::visit([&](const auto& of) { round_to(of, matrix); }, format);
}

std::vector<std::byte> stored_values(const StoredFormat& format, DoubleMatrix staged) {
  if (std::holds_alternative<LowBitFormat>(format)) round_to(format, staged);
  return to_checkpoint(staged, staged_dtype(format));
}

}  // namespace neuronmm::compress
