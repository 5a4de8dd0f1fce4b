#pragma once
// How large the MLPs of a model are, whatever form they have.

#include <cstdint>
#include <vector>

#include "io/checkpoint.h"
#include "io/model_config.h"

namespace neuronmm::apps {

// Counted in the matrices of two dimensions under "layers.N.mlp.", scales and groups of rounded
// weights left out: of every form that a layer may have, each of them is multiplied with each token
// once.
struct MlpSize {
  std::vector<int64_t> layers;  // parameters

  int64_t parameters() const;
  int64_t flops_per_token() const { return 2 * parameters(); }  // a product and a sum each
};
MlpSize mlp_size(const io::Checkpoint& checkpoint, const io::ModelConfig& config);

}  // namespace neuronmm::apps
