#pragma once
// The matrices of a compressed model that can be trained. Includes torch: internal to this folder.

#include <functional>

#include "finetune/recipe.h"
#include "finetune/torch_transformer.h"

namespace neuronmm::finetune {

// Called with each matrix and whether it is a factor that is applied first (Part::kU) or second
// (Part::kV), or another matrix (Part::kAll).
using VisitFactor = std::function<void(TorchMatrix&, Part)>;

// Of one layer, in the order of its products; where it is no `whole` one, nothing of attention and
// of what compression left dense.
void for_each_factor(TorchLayer& layer, const VisitFactor& body);
// Of all layers.
void for_each_factor(TorchTransformer& model, const VisitFactor& body);

}  // namespace neuronmm::finetune
