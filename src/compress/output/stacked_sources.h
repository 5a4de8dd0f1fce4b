#pragma once
// Stacks the matrices and biases of all experts of a layer in one tensor, for the families whose
// published folders have them so (io/families/family.h, StackedExperts).

#include <vector>

#include "compress/output/tensor_writer.h"
#include "io/model_config.h"

namespace neuronmm::compress {

// Replaces the tensors of experts by stacked ones, whose parts are read one expert at a time. The
// tensors must have canonical names and must not be rounded to few bits. All experts of a layer
// must be there, with one size and one dtype.
std::vector<TensorSource> stacked_sources(std::vector<TensorSource> sources,
                                          io::Architecture architecture);

}  // namespace neuronmm::compress
