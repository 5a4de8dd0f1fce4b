#pragma once
// The format of a rounded weight: its bits per value, and how many neighbouring columns of a row
// share more than a scale. The file is in base because io and ops both need it; ops/low_bit.h
// defines what the bits mean.

#include <cstdint>

namespace neuronmm {

// A format of rounded weights.
struct LowBitFormat {
  int bits = 8;  // 8, 6 or 4
  // 4 bits: columns that share a multiplier and zero point, 16 or 32; otherwise 128.
  int64_t group = 128;

  bool operator==(const LowBitFormat&) const = default;
};

}  // namespace neuronmm
