#pragma once
// Visits the matrices of a compressed model that can be trained. This header includes torch and is
// internal to this folder.

#include <functional>

#include "finetune/recipe.h"
#include "finetune/torch_transformer.h"

namespace neuronmm::finetune {

// Called with each matrix and its role: Part::kU for a factor that is applied first, Part::kV for a
// factor that is applied second, Part::kAll for any other matrix.
using VisitFactor = std::function<void(TorchMatrix&, Part)>;

// Visits the matrices of one layer in the order of its products. In a layer without `all_matrices`
// it skips attention and the matrices that compression left dense.
void for_each_factor(TorchLayer& layer, const VisitFactor& body);
// Visits the matrices of all layers.
void for_each_factor(TorchTransformer& model, const VisitFactor& body);

}  // namespace neuronmm::finetune
