#pragma once
// An interface for backends that can keep some experts of a model in memory and read the others
// from the checkpoint when a token chooses them. A backend that derives from LimitedExperts as well
// as from ops::Backend is asked by Transformer before the layers are made; other backends keep all
// experts in memory.

#include <cstdint>
#include <span>

#include "ops/weights.h"

namespace neuronmm::ops {

class LimitedExperts {
 public:
  virtual ~LimitedExperts() = default;
  // Prepares for a model with these mixtures, whose other weights take `other_bytes` in the
  // checkpoint. The views of the mixtures that are made afterwards must stay valid as long as their
  // layers.
  virtual void plan_experts(std::span<const MixtureWeight* const> mixtures,
                            int64_t other_bytes) const = 0;
};

}  // namespace neuronmm::ops
