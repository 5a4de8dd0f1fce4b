#pragma once
// Checks whether a target can run a model folder, and which of its layers our fused kernel can
// compute there. The `export` command calls both functions before it writes anything.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "exports/target.h"
#include "io/model_config.h"

namespace neuronmm::exports {

// Returns an error if `target` cannot run a model with this config. Refused are models that have
// not been compressed, weights of 8 bits or fewer, dtypes other than bf16, and features that the
// target's own models lack. The message names the feature and begins with `source`.
Status check_exportable(const io::ModelConfig& config, Target target, const std::string& source);

// Layers whose MLPs the fused kernel "mlp" can compute. The kernel needs three matrices of two
// factors each, all of one rank.
struct FusedLayers {
  int64_t rank = 0;
  std::vector<int64_t> layers;
};
// How the layers of a model are computed on a target.
struct KernelUse {
  std::vector<FusedLayers> fused;  // by rank, ascending
  // Layers whose ranks differ within the MLP. They are computed by plain torch products.
  std::vector<int64_t> unequal;
  // Messages that explain which layers are not fused and why. Empty if all layers are fused.
  std::vector<std::string> notes;
};
// Returns how the layers are computed. `config` must have a compression record. NxDI gets no
// kernels, because the kernels need NKI 0.4 or later, which NxDI's releases do not have.
KernelUse kernel_use(const io::ModelConfig& config, Target target);

}  // namespace neuronmm::exports
