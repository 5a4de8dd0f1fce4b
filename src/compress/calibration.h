#pragma once
// Runs calibration text through the model, layer by layer, and keeps the Gram matrices. In memory
// at any time: the hidden states of all sequences, one layer's packed weights, two Gram matrices.
//
// Work files, so that a stopped run goes on where it was: gram-0000N.safetensors per finished layer
// and calibration.safetensors, the state between two sequences. Both are exact, so that a resumed
// run ends with the same bytes.

#include <filesystem>

#include "base/result.h"
#include "compress/inputs.h"

namespace neuronmm::compress {

std::filesystem::path layer_gram_path(const std::filesystem::path& work, int64_t layer);

// Leaves layer_gram_path(work, layer) for every layer. Asks interrupted() between sequences.
Status calibrate(const PassInputs& inputs, const std::filesystem::path& work);

}  // namespace neuronmm::compress
