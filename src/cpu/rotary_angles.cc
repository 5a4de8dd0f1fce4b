#include "cpu/rotary_angles.h"

#include <algorithm>
#include <cmath>

#include "base/pieces.h"

namespace neuronmm::cpu {
namespace {

// The cost of a sine and a cosine in fp64, in multiply-adds (base/pieces.h). Assumed.
constexpr int64_t kSinCosWork = 2000;

}  // namespace

// The first layer of a forward pass computes the angles, and the others find them here.
void RotaryAngles::update(std::span<const int64_t> positions, const ops::RotaryEmbedding& rotary) {
  if (std::ranges::equal(positions, positions_) && rotary == rotary_) return;
  positions_.clear();  // empty until all angles are computed, because a loop may throw
  rotary_ = rotary;
  const int64_t rows = std::ssize(positions);
  values_.resize(static_cast<size_t>(2 * rows * half()));
  for_each_piece(rows * half(), kSinCosWork, [&](int64_t first, int64_t last) {
    // In fp64, because at position 100,000 fp32 is off by 0.004.
    for (int64_t at = first; at < last; ++at) {
      const int64_t i = at / half(), j = at % half();
      float* const row = values_.data() + 2 * i * half();
      const double angle = static_cast<double>(positions[static_cast<size_t>(i)]) *
                           static_cast<double>(rotary_.inverse_frequencies[static_cast<size_t>(j)]);
      const double scale = rotary_.attention_factor;
      row[j] = static_cast<float>(scale * std::cos(angle));
      row[half() + j] = static_cast<float>(scale * std::sin(angle));
    }
  });
  positions_.assign(positions.begin(), positions.end());
}

}  // namespace neuronmm::cpu
