#pragma once
// The format of a weight that is rounded to few bits. The file is in base because io and ops both
// need it; ops/low_bit.h defines what the bits mean. Nothing here checks the values.

#include <cstdint>

namespace neuronmm {

// A format of rounded weights. In every format, 128 neighbouring columns of a row share a scale.
struct LowBitFormat {
  int bits = 8;  // the bits per value: 8, 6 or 4
  // With 4 bits, the number of columns that also share a multiplier and a zero point: 16 or 32.
  // With 8 or 6 bits it is 128.
  int64_t group = 128;

  bool operator==(const LowBitFormat&) const = default;
};

}  // namespace neuronmm
