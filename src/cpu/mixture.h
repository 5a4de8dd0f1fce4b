#pragma once
// A mixture of experts of the CPU backend. Each step of the layer is one parallel loop over all
// chosen experts: gate and up, then down with the weighted sum. No thread waits between two
// experts, and only the weights of chosen experts are read. Decoding and prompts run the same code.
// In a prompt, each expert multiplies all tokens that have chosen it at once.

#include <memory>

#include "cpu/linear.h"

namespace neuronmm::cpu {

// Tells whether make_mixture takes experts of these forms: dense or low-rank projections without
// pivots. Otherwise the mixture must be composed of MLPs (ops::compose_mixture).
bool runs_together(const ops::MixtureWeight& weight);

// Packs the weights of all experts. The router is a linear layer of `backend`. The result shares
// `scratch` with the backend's other layers. A token's output does not depend on other tokens or on
// the number of threads.
std::unique_ptr<ops::Mlp> make_mixture(const Kernels& kernels,
                                       std::shared_ptr<LayerScratch> scratch,
                                       const ops::Backend& backend,
                                       const ops::MixtureWeight& weight, ForeignWeights foreign);

}  // namespace neuronmm::cpu
