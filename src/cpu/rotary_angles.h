#pragma once
// The sines and cosines of RoPE (see ops::Backend::rope). Queries and keys of all layers turn by
// the same angles, so they are computed once per forward pass.

#include <cstdint>
#include <span>
#include <vector>

namespace neuronmm::cpu {

class RotaryAngles {
 public:
  // Computes the table of these positions, unless it is there already.
  void update(std::span<const int64_t> positions, std::span<const float> inverse_frequencies);

  // [head_dim / 2] of row i.
  const float* cos(int64_t i) const { return values_.data() + 2 * i * half(); }
  const float* sin(int64_t i) const { return cos(i) + half(); }

 private:
  int64_t half() const { return std::ssize(frequencies_); }

  std::vector<int64_t> positions_;
  std::vector<float> frequencies_, values_;
};

}  // namespace neuronmm::cpu
