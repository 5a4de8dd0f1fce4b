#pragma once
// The frequencies of rotary position embeddings (RoPE), by the config's variant.

#include <vector>

#include "io/model_config.h"

namespace neuronmm::model {

// inv_freq[j] = theta^(-2j/head_dim), j < head_dim/2, then Llama-3's or linear scaling where the
// config has one.
std::vector<float> rope_inverse_frequencies(const io::ModelConfig& config);

}  // namespace neuronmm::model
