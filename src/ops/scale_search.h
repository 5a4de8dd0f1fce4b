#pragma once
// Chooses the scale of 6-bit codes, and the scale, multipliers and zero points of 4-bit codes
// (together a grid; ops/low_bit.h). The search takes the values of a row that share a scale, tries
// a few candidates around the grid that just covers the values, and keeps the one with the least
// squared error. Rounding to nearest (ops/quantize.h) calls it. The values must be finite.

#include <array>
#include <cstdint>

#include "base/float16.h"
#include "ops/low_bit.h"
#include "ops/weights.h"

namespace neuronmm::ops {

// The scale of up to kQuantGroup values, and the multipliers and zero points of their groups.
struct GridOf4Bits {
  bf16 scale;
  std::array<GroupOf4Bits, kQuantGroup / 16> groups;  // one for every `group` values
};

// Chooses a grid for `count` finite values, at most kQuantGroup, in groups of 16 or 32. The scale
// is 0 if the values are 0 or too small, and all bytes should then be 0.
GridOf4Bits grid_of_4bits(const float* values, int64_t count, int64_t group);
// Writes to q[i] the code on such a grid that is nearest to values[i]. The values belong to one
// group. Every code is that of 0 if the scale is 0.
void codes_of_4bits(const float* values, int64_t count, float scale, GroupOf4Bits group,
                    uint8_t* q);

// Chooses the scale of `count` finite values, at most kQuantGroup.
bf16 scale_of_6bits(const float* values, int64_t count);
// Writes to q[i] the code that is nearest to values[i]. Every code is that of 0 if the scale is 0.
void codes_of_6bits(const float* values, int64_t count, float scale, uint8_t* q);

}  // namespace neuronmm::ops
