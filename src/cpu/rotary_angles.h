#pragma once
// The sines and cosines of RoPE (see ops::Backend::rope). Queries and keys of all layers with the
// same frequencies turn by the same angles, so the CPU backend computes them once per forward pass.

#include <cstdint>
#include <span>
#include <vector>

#include "ops/backend.h"

namespace neuronmm::cpu {

// The table of one forward pass.
class RotaryAngles {
 public:
  // Computes the table for these positions, unless it holds them already.
  void update(std::span<const int64_t> positions, const ops::RotaryEmbedding& rotary);

  const ops::RotaryEmbedding& rotary() const { return rotary_; }
  // Return a value for each frequency for row i, multiplied by the attention factor.
  const float* cos(int64_t i) const { return values_.data() + 2 * i * half(); }
  const float* sin(int64_t i) const { return cos(i) + half(); }

 private:
  int64_t half() const { return std::ssize(rotary_.inverse_frequencies); }

  std::vector<int64_t> positions_;
  ops::RotaryEmbedding rotary_;
  std::vector<float> values_;
};

}  // namespace neuronmm::cpu
