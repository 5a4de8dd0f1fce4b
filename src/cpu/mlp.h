#pragma once
// The gated MLP of the CPU backend. Each of its three projections may be dense, low-rank or
// pivoted.

#include <memory>

#include "cpu/linear.h"

namespace neuronmm::cpu {

// Packs the weights of an MLP. The result shares `scratch` with the backend's other layers.
std::unique_ptr<ops::Mlp> make_mlp(const Kernels& kernels, std::shared_ptr<LayerScratch> scratch,
                                   const ops::MlpWeight& weight, ForeignWeights foreign);

}  // namespace neuronmm::cpu
