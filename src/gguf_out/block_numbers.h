#pragma once
// A block of a GGUF tensor as numbers, before it is packed into bytes. The layouts are documented
// in llama.cpp (ggml/src/ggml-common.h).
//
//   weight = step · level(code) - offset
//   step   = d · multiplier                        of the weight's group
//   offset = dmin · minimum + zero · step          of the weight's group
//
// Types without groups have one group with multiplier and minimum 1. Q4_1 and Q5_1 store -dmin.

#include <array>
#include <cstddef>
#include <cstdint>

#include "gguf/dequantize.h"
#include "gguf_out/block_encoder.h"

namespace neuronmm::gguf_out {

// The most weights and the most groups of a block.
constexpr int kMostWeights = 256, kMostGroups = 16;

// The ranges of the numbers of a type.
struct BlockShape {
  int weights;  // of a block
  int group;    // the number of weights that share a step and an offset
  int codes;    // codes are 0 ... codes - 1
  int zero;     // the level that stands for 0 if dmin is 0
  bool has_min;
  int lowest_multiplier, highest_multiplier;  // both 1 if the type has no groups
  bool has_table;                             // levels come from kLevels, else they are the codes

  int groups() const { return weights / group; }
  bool has_groups() const { return highest_multiplier > 1; }
  int lowest_level() const;
  int highest_level() const;
};

// Returns the shape of a type other than F32, F16 and BF16.
const BlockShape& shape_of(BlockType type);

// The levels of IQ4_NL.
inline constexpr const std::array<int8_t, 16>& kLevels = gguf::kIq4Levels;
// Returns the code of IQ4_NL whose level is nearest to `level`.
int nearest_table_code(float level);

struct BlockNumbers {
  float d = 0, dmin = 0;  // values that f16 represents
  // The largest minimum is 63. It is 1 in types without groups that have a minimum, else 0.
  std::array<int16_t, kMostGroups> multiplier = {}, minimum = {};
  std::array<uint8_t, kMostWeights> code = {};

  float step(int g) const { return d * static_cast<float>(multiplier[static_cast<size_t>(g)]); }
  float offset(const BlockShape& shape, int g) const {
    return dmin * static_cast<float>(minimum[static_cast<size_t>(g)]) +
           step(g) * static_cast<float>(shape.zero);
  }
};

// Writes the bytes of a block.
void pack(BlockType type, const BlockNumbers& block, std::byte* out);

// Returns the f16 value nearest to `value`, but no infinity: beyond the range it is ±65504.
float f16_value(float value);

}  // namespace neuronmm::gguf_out
