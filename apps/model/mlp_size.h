#pragma once
// Counts the parameters of a model's MLPs, dense or compressed to any form. `compare` uses the
// counts for its tables and plots.

#include <cstdint>
#include <vector>

#include "io/checkpoint.h"
#include "io/model_config.h"

namespace neuronmm::apps {

// The sizes of the MLPs. All matrices of two dimensions under "layers.N.mlp." count, but the scales
// and groups of rounded weights do not. In every form of a layer, each parameter is multiplied once
// for each token, except those of experts that a token does not choose.
struct MlpSize {
  std::vector<int64_t> layers;  // the number of parameters of each layer
  int64_t idle = 0;             // the parameters of experts that one token does not choose

  // Returns the sum over all layers.
  int64_t parameters() const;
  // Returns one multiplication and one addition per parameter that a token uses.
  int64_t flops_per_token() const { return 2 * (parameters() - idle); }
};
// Counts the parameters in a checkpoint without reading their values.
MlpSize mlp_size(const io::Checkpoint& checkpoint, const io::ModelConfig& config);

}  // namespace neuronmm::apps
