#pragma once
// Provides the Gram matrices by which form uv whitens single matrices (layer_factorization.h). They
// come from a pass over the calibration text or from saved statistics. `compress` calls these
// functions.

#include <filesystem>

#include "base/result.h"
#include "compress/linear_algebra/gram.h"
#include "compress/statistics/inputs.h"

namespace neuronmm::compress {

// Runs the calibration text through the model and writes a checked file per layer to `work`. The
// returned source reads these files. Memory holds the hidden states of all sequences, the packed
// weights of one layer and two Gram matrices. A run that was interrupted continues from the files
// in `work` and ends with the same bytes. The function asks interrupted() between sequences. Fails
// if a layer produces NaN or infinity.
Result<GramSource> gather_layer_grams(const CompressionInputs& inputs,
                                      const std::filesystem::path& work);

// Returns a source that computes a layer's matrices from the statistics in the folder `statistics`
// (mlp_statistics.h). `in` is the mean of x·xᵀ. `out` is W·(mean of h·hᵀ)·Wᵀ, where W [H, I] is the
// layer's dense down matrix. `checkpoint` and `config` must outlive the source.
GramSource layer_grams_of_statistics(const std::filesystem::path& statistics,
                                     const io::Checkpoint& checkpoint,
                                     const io::ModelConfig& config);

}  // namespace neuronmm::compress
