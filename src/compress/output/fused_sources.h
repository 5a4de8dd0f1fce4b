#pragma once
// Joins the matrices that a published class keeps as one, such as q, k and v of Phi-3 or the
// experts of a layer of Granite. Folders that our own classes load have them split
// (io/families/tensor_names.h). Folders for the published classes need them as the family has them:
// those of dequantize.h, merge_adapter.h and exports/padded_folder.h, and plain ones of `compress`.

#include <vector>

#include "compress/output/tensor_writer.h"
#include "io/model_config.h"

namespace neuronmm::compress {

// Replaces the tensors of every matrix that is fused in folders of the architecture by one. The
// tensors must have canonical names, must not be rounded to few bits, and must include all parts of
// a matrix. Parts of several dtypes, which no fused matrix has, stay apart.
std::vector<TensorSource> fused_sources(std::vector<TensorSource> sources,
                                        io::Architecture architecture);

}  // namespace neuronmm::compress
