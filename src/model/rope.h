#pragma once
// The frequencies of rotary position embeddings (RoPE), by the config's variant.

#include "io/model_config.h"
#include "ops/backend.h"

namespace neuronmm::model {

// f[j] = theta^(-2j / head_dim), j < head_dim / 2, changed by the config's scaling as transformers'
// modeling_rope_utils.py does it, for sequences up to max_position_embeddings:
//   linear    f[j] / factor
//   dynamic   f[j]; it would change beyond max_position_embeddings only
//   llama3    f[j] / factor for long wavelengths, f[j] for short ones, a blend in between
//   yarn      the same by the pair's number: with d(t) = head_dim log(original / (2 pi t)) /
//             (2 log theta), the pair that turns t times over the original context, blended between
//             d(beta_fast) and d(beta_slow).
//             attention_factor = 1 + 0.1 log(factor), or the quotient of that with mscale and with
//             mscale_all_dim before the logarithms
//   longrope  f[j] / short_factor[j]; attention_factor = sqrt(1 + log(factor) / log(original))
// An attention_factor of the config comes before those. Computed in fp64, stored once.
ops::RotaryEmbedding rotary_embedding(const io::ModelConfig& config);

}  // namespace neuronmm::model
