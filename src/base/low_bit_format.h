#pragma once
// How many bits the values of a rounded weight have, and how many neighbouring columns of a row
// share more than a scale. What the bits mean: ops/low_bit.h.

#include <cstdint>

namespace neuronmm {

struct LowBitFormat {
  int bits = 8;         // 8, 6, 4
  int64_t group = 128;  // 4 bits: columns with one multiplier and zero point, 16 or 32; else 128

  bool operator==(const LowBitFormat&) const = default;
};

}  // namespace neuronmm
