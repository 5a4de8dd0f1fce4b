#pragma once
// A random weight [rows, columns], out x in, in bf16 and int8, and the bf16 values in fp32.

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "base/float16.h"
#include "base/tensor.h"
#include "ops/quantize.h"

namespace neuronmm::bench {

class RandomWeight {
 public:
  RandomWeight(int64_t rows, int64_t columns, std::mt19937& random) : floats_(rows, columns) {
    const auto limit = 1.7f / std::sqrt(static_cast<float>(columns));  // Y is about as large as X
    std::uniform_real_distribution<float> uniform(-limit, limit);
    for (int64_t i = 0; i < rows * columns; ++i) {
      const bf16 value = bf16::from_float(uniform(random));
      bits_.push_back(value.bits);
      floats_.data()[i] = value.to_float();
    }
    int8_ = ops::quantize(view(16));
  }
  ops::WeightView view(int bits) const {
    if (bits == 8) return int8_.view();
    return TensorView{DType::kBF16,
                      {floats_.rows(), floats_.columns()},
                      reinterpret_cast<const std::byte*>(bits_.data())};
  }
  const Matrix& floats() const { return floats_; }

 private:
  std::vector<uint16_t> bits_;
  Matrix floats_;
  ops::QuantizedWeight int8_;
};

}  // namespace neuronmm::bench
