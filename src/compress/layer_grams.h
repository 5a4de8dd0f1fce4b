#pragma once
// Where the Gram matrices come from by which form uv whitens single matrices
// (layer_factorization.h): from a pass over the calibration text, or from statistics that are there
// already.

#include <filesystem>

#include "base/result.h"
#include "compress/gram.h"
#include "compress/inputs.h"

namespace neuronmm::compress {

// Runs the calibration text through the model and leaves a checked file per layer in `work`, from
// which the source reads. In memory at any time: the hidden states of all sequences, one layer's
// packed weights, two Gram matrices. A run that was interrupted goes on from the files in `work`
// and ends with the same bytes. Asks interrupted() between sequences.
Result<GramSource> gather_layer_grams(const CompressionInputs& inputs,
                                      const std::filesystem::path& work);

// Makes a layer's matrices of the statistics in the folder `statistics` (mlp_statistics.h): `in` is
// the mean of x·xᵀ, and `out` is W·(mean of h·hᵀ)·Wᵀ, with W [H, I] the layer's dense down matrix.
// What the arguments refer to must outlive the source.
GramSource layer_grams_of_statistics(const std::filesystem::path& statistics,
                                     const io::Checkpoint& checkpoint,
                                     const io::ModelConfig& config);

}  // namespace neuronmm::compress
