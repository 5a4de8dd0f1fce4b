#pragma once
// Lists the parts of a decoder layer that get a format of their own, and the formats that `fit`
// chooses from.

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "base/low_bit_format.h"

namespace neuronmm::fit {

// The parts of a layer. Matrices whose rounding errors disturb the same values form one part.
enum Part : size_t { kQueriesAndKeys, kValues, kAttentionOutput, kGateAndUp, kDown, kParts };

inline constexpr Part kAttentionParts[] = {kQueriesAndKeys, kValues, kAttentionOutput};

// Returns the names of the part's modules in a decoder layer, for example "self_attn.q_proj".
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

// The formats of a rounded model. Parts that are not rounded keep the model's own dtype.
inline constexpr size_t kFormats = 4;
inline constexpr std::array<LowBitFormat, kFormats> kCandidates = {
    LowBitFormat{8, 128}, LowBitFormat{6, 128}, LowBitFormat{4, 16}, LowBitFormat{4, 32}};
// The index that stands for the model's own dtype.
inline constexpr size_t kAsIs = kFormats;
inline constexpr size_t kMeasuredFormat = 2;  // the format in which losses are measured

}  // namespace neuronmm::fit
