#pragma once
// Whether a folder can be run by a target, and what of it our fused kernel can compute there.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "exports/target.h"
#include "io/model_config.h"

namespace neuronmm::exports {

// `source` begins every message. Refused: what has not been compressed, int8 and less, another
// dtype than bf16, and what the target's own models lack, each by name.
Status check_exportable(const io::ModelConfig& config, Target target, const std::string& source);

// The kernel "mlp" is for three matrices of two factors each, all of one rank.
struct FusedLayers {
  int64_t rank = 0;
  std::vector<int64_t> layers;
};
struct KernelUse {
  std::vector<FusedLayers> fused;  // by rank, ascending
  std::vector<int64_t> unequal;    // layers whose ranks differ within the MLP: plain torch products
  std::vector<std::string> notes;  // the same in words, a line each; empty: all layers are fused
};
// Of a config with a compression record. NxDI has no kernel: the dialect that they are written in
// is not that of trn1's SDK.
KernelUse kernel_use(const io::ModelConfig& config, Target target);

}  // namespace neuronmm::exports
