#include "cpu/rotary_angles.h"

#include <algorithm>
#include <cmath>

#include "cpu/tasks.h"

namespace neuronmm::cpu {
namespace {

constexpr int64_t kSinCosWork = 2000;  // one of each in fp64, in multiply-adds (see for_each_task)

}  // namespace

// All layers of a forward pass use the same angles: they are computed by the first and found here
// by the others.
void RotaryAngles::update(std::span<const int64_t> positions,
                          std::span<const float> inverse_frequencies) {
  if (std::ranges::equal(positions, positions_) &&
      std::ranges::equal(inverse_frequencies, frequencies_)) {
    return;
  }
  positions_.assign(positions.begin(), positions.end());
  frequencies_.assign(inverse_frequencies.begin(), inverse_frequencies.end());
  const int64_t rows = std::ssize(positions);
  values_.resize(static_cast<size_t>(2 * rows * half()));
  for_each_task(rows, rows * half() * kSinCosWork, [&](int64_t i) {
    float* const row = values_.data() + 2 * i * half();
    for (int64_t j = 0; j < half(); ++j) {  // fp64: at position 100,000 fp32 is off by 0.004
      const double angle = static_cast<double>(positions_[static_cast<size_t>(i)]) *
                           static_cast<double>(frequencies_[static_cast<size_t>(j)]);
      row[j] = static_cast<float>(std::cos(angle));
      row[half() + j] = static_cast<float>(std::sin(angle));
    }
  });
}

}  // namespace neuronmm::cpu
