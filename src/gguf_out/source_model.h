#pragma once
// The model that is written to a GGUF file: a folder of any form, or another GGUF file, and the
// sizes that its MLPs get in the file.

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/result.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "model/layer_weights.h"
#include "ops/weights.h"

namespace neuronmm::gguf_out {

struct SourceModel {
  // The config of the folder.
  io::ModelConfig config;
  io::Checkpoint checkpoint;
  ops::WeightView table;      // [vocab_size, hidden_size]
  ops::WeightView head = {};  // the same shape; empty if the table is the head
  TensorView norm;            // [hidden_size]
  std::vector<model::LayerWeights> layers = {};

  // Opens a folder or a GGUF file. Fails like the commands that run the model.
  static Result<SourceModel> open(const std::filesystem::path& path);

  // Returns the neurons of a layer.
  int64_t neurons(int64_t layer) const { return layers[static_cast<size_t>(layer)].mlp.neurons(); }
  // Returns whether matrices of some MLP have factors or pivots, which the file cannot have.
  bool has_factors() const;
  // Returns whether some layer has fewer neurons than config.intermediate_size.
  bool has_fewer_neurons() const;
  // Returns the bits of most weights if they are rounded to 8, 6 or 4 bits, and 0 for floats.
  int64_t bits() const { return config.quantization ? config.quantization->format.bits : 0; }
};

}  // namespace neuronmm::gguf_out
