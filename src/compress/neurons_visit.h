#pragma once
// The visit of a layer that gathers what down is fitted to: the neurons ĥ [I] that narrowed gate
// and up make of the dense model's hidden states, and the output t [H] of the dense MLP. The hidden
// states pass the dense layer.

#include "compress/sequence_visit.h"
#include "ops/weights.h"

namespace neuronmm::compress {

// The sums of the pass: Σ ĥ·ĥᵀ [I, I], of which a layer of k neurons fills the first k rows and
// columns, and Σ t·ĥᵀ [H, I].
enum NeuronsSum { kNeuronGram, kTargetCross };

// `narrow` has the gate and up to run; `dense` is the layer's MLP in the model folder.
LayerVisit neurons_visit(int64_t layer, const ops::MlpWeight& narrow, const ops::MlpWeight& dense);

}  // namespace neuronmm::compress
