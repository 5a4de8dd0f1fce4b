#include "gguf/ternary_quants.h"

#include <cstdint>

#include "gguf/k_quants.h"

namespace neuronmm::gguf {
namespace {

// Writes the first `digits` digits of each of `count` bytes: all first digits, then all second
// digits, and so on. A byte is the fraction byte / 256, whose digits to base 3 are the weights + 1.
float* write_digits(const std::byte* bytes, int count, int digits, float d, float* out) {
  for (int digit = 0, power = 1; digit < digits; ++digit, power *= 3) {
    for (int i = 0; i < count; ++i) {
      const auto fraction = static_cast<uint8_t>(byte_at(bytes, i) * power);
      *out++ = d * static_cast<float>((fraction * 3 >> 8) - 1);
    }
  }
  return out;
}

}  // namespace

void tq1_0(const std::byte* block, float* out) {
  const float d = half_at(block + 52);
  out = write_digits(block, 32, 5, d, out);
  out = write_digits(block + 32, 16, 5, d, out);
  write_digits(block + 48, 4, 4, d, out);
}

void tq2_0(const std::byte* block, float* out) {
  const float d = half_at(block + 64);
  for (int run = 0; run < 8; ++run) {
    const std::byte* const bytes = block + run / 4 * 32;
    for (int i = 0; i < 32; ++i)
      out[32 * run + i] = d * static_cast<float>((byte_at(bytes, i) >> (2 * (run % 4)) & 3) - 1);
  }
}

}  // namespace neuronmm::gguf
