#include "compress/statistics/matrix_tensor.h"

namespace neuronmm::compress {

std::span<const std::byte> bytes_of(const DoubleMatrix& matrix) {
  return std::as_bytes(std::span(matrix.data(), static_cast<size_t>(matrix.size())));
}

Result<DoubleMatrix> read_matrix(const io::SafetensorsFile& file, const std::string& name,
                                 const Shape& shape, const std::string& source) {
  const auto found = file.tensors().find(name);
  if (found == file.tensors().end() || found->second.dtype != DType::kF64 ||
      found->second.shape != shape) {
    return fail("{}: expected tensor {} F64 {}", source, name, shape_string(shape));
  }
  const bool vector = shape.size() == 1;
  DoubleMatrix matrix(vector ? 1 : shape.at(0), vector ? shape.at(0) : shape.at(1));
  to_doubles(found->second, 0, matrix.size(), matrix.data());
  return matrix;
}

}  // namespace neuronmm::compress
