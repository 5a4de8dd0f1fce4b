#pragma once
// A mixture of experts of the CPU backend. Each step of the layer is one parallel loop over all
// chosen experts: gate and up, then down with the weighted sum. No thread waits between two
// experts, and only the weights of chosen experts are read. Decoding and prompts run the same code.
// In a prompt, each expert multiplies all tokens that have chosen it at once.

#include <memory>

#include "cpu/expert_cache.h"
#include "cpu/linear.h"

namespace neuronmm::cpu {

// Tells whether make_mixture takes experts of these forms: dense or low-rank projections without
// pivots. Otherwise the mixture must be composed of MLPs (ops::compose_mixture).
bool runs_together(const ops::MixtureWeight& weight);

// Adds the weights of all experts to `experts`. The router is a linear layer of `backend`. The
// result shares `scratch` with the backend's other layers. A token's output does not depend on
// other tokens, on the number of threads, or on which experts are in memory.
std::unique_ptr<ops::Mlp> make_mixture(const Kernels& kernels,
                                       std::shared_ptr<LayerScratch> scratch,
                                       std::shared_ptr<ExpertCache> experts,
                                       const ops::Backend& backend,
                                       const ops::MixtureWeight& weight);

}  // namespace neuronmm::cpu
