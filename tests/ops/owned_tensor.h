#pragma once
// Tensors and random values in memory, for tests that need weights without a file.

#include <random>
#include <vector>

#include "base/tensor.h"

namespace neuronmm {

// A tensor that owns its bytes. The values are given in fp32 and rounded to the dtype. A view is
// valid while the tensor lives.
class OwnedTensor {
 public:
  OwnedTensor(DType dtype, Shape shape, const std::vector<float>& values)
      : dtype_(dtype), shape_(std::move(shape)) {
    append_rounded(dtype, values.data(), static_cast<int64_t>(values.size()), bytes_);
  }
  TensorView view() const { return {dtype_, shape_, bytes_.data()}; }

 private:
  DType dtype_;
  Shape shape_;
  std::vector<std::byte> bytes_;
};

// Returns normally distributed values with mean 0 and the given standard deviation.
inline std::vector<float> random_values(int64_t count, std::mt19937_64& random,
                                        float deviation = 1.0f) {
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

inline Matrix random_matrix(int64_t rows, int64_t columns, std::mt19937_64& random) {
  Matrix matrix(rows, columns);
  const std::vector<float> values = random_values(rows * columns, random);
  std::copy(values.begin(), values.end(), matrix.data());
  return matrix;
}

}  // namespace neuronmm
