#pragma once
// The first phase of fine-tuning, block refinement (AA-SVD). Before anything is trained through the
// whole model, each decoder layer is trained by itself. Its input is the hidden states of the
// compressed model, and its target is what the dense model's layer makes of the dense model's own
// hidden states. The layers are trained in order, so that a later layer corrects what is left of
// the errors of the earlier ones. Used by Training. A run fails when the error of a layer is NaN or
// infinite, or when the user interrupts it.

#include <functional>
#include <vector>

#include "base/progress.h"
#include "finetune/dataset.h"
#include "finetune/trainable_model.h"
#include "finetune/training_folder.h"

namespace neuronmm::finetune {

// Refines all layers of one model and shows the progress.
class BlockRefinement {
 public:
  // Trains on at most recipe.block_tokens tokens of `data`. A layer keeps its old weights where
  // training has not lowered its error on `validation` (or, if `validation` is empty, on the
  // training text). All arguments must outlive this object.
  BlockRefinement(const Recipe& recipe, const Dataset& data, const Dataset& validation,
                  TrainableModel& model, Progress& progress);

  // Refines the layers from position.step on. After each layer it appends the layer's errors to
  // position.blocks, adds one to position.step and calls `layer_done`. After an error the current
  // layer has its old weights.
  Status run(Position& position, const std::function<Status()>& layer_done);

 private:
  Status refine(Position& position);
  Status train();
  Status step(int64_t index, int64_t total);
  Result<double> error() const;

  const Recipe& recipe_;
  TrainableModel& model_;
  Progress& progress_;
  std::vector<const Example*> trained_, held_out_;
  int64_t sequences_done_ = 0;
};

// Returns the numbers below `count` in a random order that depends on the seed, the phase and the
// epoch only.
std::vector<size_t> shuffled(size_t count, uint64_t seed, int64_t phase, int64_t epoch);

}  // namespace neuronmm::finetune
