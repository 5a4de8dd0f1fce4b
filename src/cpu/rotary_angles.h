#pragma once
// The sines and cosines of RoPE (see ops::Backend::rope). Queries and keys of all layers turn by
// the same angles, so they are computed once per forward pass.

#include <cstdint>
#include <span>
#include <vector>

#include "ops/backend.h"

namespace neuronmm::cpu {

class RotaryAngles {
 public:
  // Computes the table of these positions, unless it is there already.
  void update(std::span<const int64_t> positions, const ops::RotaryEmbedding& rotary);

  // [head_dim / 2] of row i, times the attention factor.
  const float* cos(int64_t i) const { return values_.data() + 2 * i * half(); }
  const float* sin(int64_t i) const { return cos(i) + half(); }

 private:
  int64_t half() const { return std::ssize(rotary_.inverse_frequencies); }

  std::vector<int64_t> positions_;
  ops::RotaryEmbedding rotary_;
  std::vector<float> values_;
};

}  // namespace neuronmm::cpu
