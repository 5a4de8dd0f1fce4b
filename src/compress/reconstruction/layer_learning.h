#pragma once
// Trains one layer on streams of hidden states (reconstruction.h).

#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "compress/reconstruction/hidden_states.h"
#include "compress/reconstruction/training_layers.h"
#include "training/layer_training.h"

namespace neuronmm::compress {

// Neighbouring tokens of a sequence: the rows of a stream that attention sees together.
struct Piece {
  int64_t first = 0, length = 0;
};

// The rows of both streams: what the compressed model's layer gets, and what the dense model's
// layer returns.
struct LayerText {
  const HiddenStates& inputs;
  const HiddenStates& targets;
  std::span<const Piece> trained, held_out;
};

struct LearningSettings {
  training::Precision precision = training::Precision::kFp32;
  int64_t passes = 1;  // at most
  int64_t width = 0;   // hidden_size
};
// The most tokens whose activations are in memory together.
int64_t most_tokens_at_once();

struct Learned {
  LayerOutcome outcome;
  // False if no state was better than the first one. The layer then has to be read again.
  bool changed = false;
};
// Trains the layer and leaves it in the best state on the held-out text, rounded as the model of
// `reader` stores its tensors. `step_done` gets the mean error of each step. Fails if the streams
// cannot be read, and after an interrupt.
Result<Learned> learn_layer(TrainingLayer& layer, const LayerText& text,
                            const LearningSettings& settings, const LayerReader& reader,
                            const std::function<void(double error)>& step_done);

// Returns the mean error of the layer over the pieces.
Result<double> mean_error(TrainingLayer& layer, const LayerText& text,
                          std::span<const Piece> pieces, training::Precision precision);

// Returns the number of steps of a pass.
int64_t steps_per_pass(std::span<const Piece> pieces);
// Calls body with groups of pieces, in their order. A group has at most most_tokens_at_once().
Status for_each_group(std::span<const Piece> pieces,
                      const std::function<Status(std::span<const Piece>)>& body);
// Returns the rows of some pieces, and their lengths.
Result<training::Rows<float>> rows_of(const HiddenStates& states, std::span<const Piece> pieces);
training::Sequences lengths_of(std::span<const Piece> pieces);

}  // namespace neuronmm::compress
