#pragma once
// Gathers the sums that down is fitted to, in one layer (factors/down_fit.h). The sums are taken
// over the neurons ĥ [I], which the narrowed gate and up compute from the dense model's hidden
// states, and the output t [H] of the dense MLP. The hidden states then pass the dense layer.

#include "compress/statistics/sequence_visit.h"
#include "ops/weights.h"

namespace neuronmm::compress {

// The sums of the pass: Σ ĥ·ĥᵀ [I, I] and Σ t·ĥᵀ [H, I]. A layer of k neurons fills the first k
// rows and columns of the first sum and the first k columns of the second.
enum NeuronsSum { kNeuronGram, kTargetCross };

// Returns the visit of a layer. `narrow` has the narrowed gate and up, and `dense` is the layer's
// MLP in the model folder.
LayerVisit neurons_visit(int64_t layer, const ops::MlpWeight& narrow, const ops::MlpWeight& dense);

}  // namespace neuronmm::compress
