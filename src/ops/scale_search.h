#pragma once
// What the values of a row that share a scale are multiples of, for 6 and 4 bits: chosen for a
// small squared error of the values rounded to nearest, from a few candidates that lie around what
// covers them.

#include <array>
#include <cstdint>

#include "base/float16.h"
#include "ops/low_bit.h"
#include "ops/weights.h"

namespace neuronmm::ops {

struct GridOf4Bits {
  bf16 scale;
  std::array<GroupOf4Bits, kQuantGroup / 16> groups;  // one for every `group` values
};

// `count` finite values, at most kQuantGroup, in groups of 16 or 32. A scale of 0: all bytes are 0.
GridOf4Bits grid_of_4bits(const float* values, int64_t count, int64_t group);
// q[i]: the code of values[i] of one group on such a grid, to nearest; of 0 with a scale of 0.
void codes_of_4bits(const float* values, int64_t count, float scale, GroupOf4Bits group,
                    uint8_t* q);

bf16 scale_of_6bits(const float* values, int64_t count);
void codes_of_6bits(const float* values, int64_t count, float scale, uint8_t* q);

}  // namespace neuronmm::ops
