#pragma once
// What of a decoder layer gets a format of its own, and the formats that there are to choose from.

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "base/low_bit_format.h"

namespace neuronmm::fit {

// Matrices whose roundings disturb the same thing go together.
enum Part : size_t { kQueriesAndKeys, kValues, kAttentionOutput, kGateAndUp, kDown, kParts };

// "self_attn.q_proj", ..., as modules of a decoder layer are named.
inline std::vector<std::string> modules_of(Part part) {
  switch (part) {
    case kQueriesAndKeys:
      return {"self_attn.q_proj", "self_attn.k_proj"};
    case kValues:
      return {"self_attn.v_proj"};
    case kAttentionOutput:
      return {"self_attn.o_proj"};
    case kGateAndUp:
      return {"mlp.gate_proj", "mlp.up_proj"};
    default:
      return {"mlp.down_proj"};
  }
}

// Of a rounded model. What is not rounded has the model's own dtype.
inline constexpr size_t kFormats = 4;
inline constexpr std::array<LowBitFormat, kFormats> kCandidates = {
    LowBitFormat{8, 128}, LowBitFormat{6, 128}, LowBitFormat{4, 16}, LowBitFormat{4, 32}};
inline constexpr size_t kProbe = 2;  // what losses are measured with

}  // namespace neuronmm::fit
