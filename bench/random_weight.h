#pragma once
// A random weight for benchmarks, in bf16, rounded to 8, 6 and 4 bits, and in fp32.

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "base/float16.h"
#include "base/tensor.h"
#include "ops/quantize.h"

namespace neuronmm::bench {

// A weight [rows, columns], which is out x in. All forms have the same values, rounded to their
// precision.
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
    for (const LowBitFormat& format : {LowBitFormat{8}, LowBitFormat{6}, LowBitFormat{4, 16}}) {
      rounded_.push_back(ops::quantize(view(16), format));
    }
  }
  ops::WeightView view(int bits) const {
    for (const ops::QuantizedWeight& weight : rounded_) {
      if (weight.format.bits == bits) return weight.view();
    }
    return TensorView{DType::kBF16,
                      {floats_.rows(), floats_.columns()},
                      reinterpret_cast<const std::byte*>(bits_.data())};
  }
  const Matrix& floats() const { return floats_; }

 private:
  std::vector<uint16_t> bits_;
  Matrix floats_;
  std::vector<ops::QuantizedWeight> rounded_;
};

}  // namespace neuronmm::bench
