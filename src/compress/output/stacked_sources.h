#pragma once
// Stacks the matrices and biases of all experts of a layer in one tensor, for the families whose
// published folders have them so (io/families/family.h, StackedExperts).

#include <vector>

#include "compress/output/tensor_writer.h"
#include "io/model_config.h"

namespace neuronmm::compress {

// Replaces the tensors of experts by stacked ones, whose parts are read one expert at a time. The
// tensors have canonical names, are not rounded to few bits, and the experts of a layer have one
// size.
std::vector<TensorSource> stacked_sources(std::vector<TensorSource> sources,
                                          io::Architecture architecture);

}  // namespace neuronmm::compress
