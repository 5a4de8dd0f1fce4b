#include "base/float16.h"

namespace neuronmm {

// IEEE binary16 has 1 sign bit, 5 exponent bits (bias 15) and 10 fraction bits.
float f16::to_float() const {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1F;
  const uint32_t fraction = bits & 0x3FF;
  if (exponent == 0) {  // zero and subnormals: fraction · 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000 | (fraction << 13));
  // Only the exponent's bias differs: it is 127 in fp32 and 15 in binary16.
  return std::bit_cast<float>(sign | ((exponent + 127 - 15) << 23) | (fraction << 13));
}

f16 f16::from_float(float value) {
  const uint32_t word = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((word >> 16) & 0x8000);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return {static_cast<uint16_t>(sign | 0x7E00)};
  if (magnitude >= 65520.0f) return {static_cast<uint16_t>(sign | 0x7C00)};  // rounds to infinity
  if (magnitude < 0x1p-14f) {  // Subnormals are multiples of 2^-24; nearbyint rounds ties to even.
    return {
        static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24f)))};
  }
  // The exponent gets its new bias while the number still has 32 bits. Then 0xFFF is added, and one
  // more if the last kept bit is odd. This carries into the kept 10 bits of the fraction exactly
  // where rounding to nearest even rounds up. A carry out of the fraction correctly raises the
  // exponent.
  const uint32_t rebias = (word & 0x7FFFFFFF) - ((127 - 15) << 23);
  const uint32_t rounded = rebias + 0xFFF + ((rebias >> 13) & 1);
  return {static_cast<uint16_t>(sign | (rounded >> 13))};
}

}  // namespace neuronmm
