#pragma once
// The SwiGLU MLP as one object, whichever of its three projections are low-rank.

#include <memory>

#include "cpu/linear.h"

namespace neuronmm::cpu {

std::unique_ptr<ops::Mlp> make_mlp(const Kernels& kernels, std::shared_ptr<LayerScratch> scratch,
                                   const ops::MlpWeight& weight);

}  // namespace neuronmm::cpu
