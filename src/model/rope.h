#pragma once
// The frequencies of rotary position embeddings (RoPE) for every scaling variant that a config may
// name. Transformer computes them once when it opens a model.

#include <vector>

#include "io/model_config.h"
#include "ops/backend.h"

namespace neuronmm::model {

// Returns one frequency per pair of the elements of a head that turn. Without scaling, f[j] =
// theta^(-2j / w) for j < w / 2, where w is the table's rotary width (head_dim if it has none). The
// scaling changes f[j] as transformers' modeling_rope_utils.py does for sequences up to
// max_position_embeddings:
//   linear    f[j] / factor
//   dynamic   f[j], because dynamic scaling acts beyond max_position_embeddings only
//   llama3    f[j] / factor for long wavelengths, f[j] for short ones, a blend in between
//   yarn      f[j] for j <= d(beta_fast), f[j] / factor for j >= d(beta_slow), a blend in between.
//             d(t) = w log(original / (2 pi t)) / (2 log theta) is the index of the pair
//             that makes t turns over the original context. attention_factor = 1 + 0.1 log(factor);
//             with mscale and mscale_all_dim it is (1 + 0.1 mscale log(factor)) / (1 + 0.1
//             mscale_all_dim log(factor))
//   longrope  f[j] / short_factor[j], or f[j] / long_factor[j] in long sequences;
//             attention_factor = sqrt(1 + log(factor) / log(original))
// An attention_factor in the config replaces the computed one. Frequencies are computed in fp64 and
// rounded to fp32 once.
ops::RotaryEmbedding rotary_embedding(const io::RopeTable& table, int64_t head_dim);

// The frequencies of all layers of a model. Layers that name the same table share them.
class RotaryTables {
 public:
  RotaryTables() = default;
  explicit RotaryTables(const io::ModelConfig& config);
  // Returns table `index` of the config, or no frequencies for io::kNoRope.
  const ops::RotaryEmbedding& at(int64_t index) const {
    return index == io::kNoRope ? none_ : tables_.at(static_cast<size_t>(index));
  }

 private:
  std::vector<ops::RotaryEmbedding> tables_;
  ops::RotaryEmbedding none_;
};

}  // namespace neuronmm::model
