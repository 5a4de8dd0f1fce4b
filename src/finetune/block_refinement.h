#pragma once
// Block refinement (AA-SVD): before anything is trained through the whole model, each decoder layer
// by itself learns to make of the compressed model's hidden states what the dense model's layer
// makes of its own. Layers are trained in order, so that later ones make up for what is left of the
// error of those before.

#include <functional>
#include <vector>

#include "base/progress.h"
#include "finetune/dataset.h"
#include "finetune/trainable_model.h"
#include "finetune/training_folder.h"

namespace neuronmm::finetune {

class BlockRefinement {
 public:
  // On recipe.block_tokens of `data` at most. A layer is left as it was where training has not
  // lowered its error on `validation` (or, if that is empty, on what it was trained on). All
  // arguments must outlive it.
  BlockRefinement(const Recipe& recipe, const Dataset& data, const Dataset& validation,
                  TrainableModel& model, Progress& progress);

  // The layers from position.step on. Each adds its errors to position.blocks and one to the step,
  // and is followed by `layer_done`. An error leaves the layer at hand as it was.
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

// The numbers below `count` in an order of their own for every seed, phase and epoch.
std::vector<size_t> shuffled(size_t count, uint64_t seed, int64_t phase, int64_t epoch);

}  // namespace neuronmm::finetune
