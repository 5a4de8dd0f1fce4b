#pragma once
// The model that is written to a GGUF file: a folder of any form, or another GGUF file, and the
// sizes that its MLPs get in the file.

#include <cstdint>
#include <deque>
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
  // Experts that share bases are pairs of factors here.
  std::vector<model::LayerWeights> layers = {};
  // Biases that are not in the checkpoint. Elements stay where they are.
  std::deque<std::vector<float>> biases = {};

  // Opens a folder or a GGUF file. Fails like the commands that run the model.
  static Result<SourceModel> open(const std::filesystem::path& path);

  // Returns the neurons of a layer, or 0 if it is a mixture of experts.
  int64_t neurons(int64_t layer) const { return layers[static_cast<size_t>(layer)].mlp.neurons(); }
  // Returns the neurons of the largest expert, or 0 if there are none.
  int64_t expert_neurons() const;
  // Returns whether matrices of some MLP have factors or pivots, which the file cannot have.
  bool has_factors() const;
  // Returns whether some layer has fewer neurons than config.intermediate_size, or some expert
  // fewer than config.experts->width.
  bool has_fewer_neurons() const;
  // Returns the bits of most weights if they are rounded to 8, 6 or 4 bits, and 0 for floats.
  int64_t bits() const { return config.quantization ? config.quantization->format.bits : 0; }
};

}  // namespace neuronmm::gguf_out
