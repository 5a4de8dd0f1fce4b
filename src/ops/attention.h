#pragma once
// The attention of one decoder layer: its weights, the sequences of a batch, and the layer itself
// as one operation. Model code makes the layer with Backend::make_attention and applies it once per
// forward pass. Shapes that do not fit are programming errors (NMM_CHECK).
//
// Letters: M tokens of the batch, H hidden_size.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/tensor.h"
#include "ops/kv_cache.h"
#include "ops/weights.h"

namespace neuronmm::ops {

class Backend;

// The angles by which rotary position embeddings (RoPE) turn queries and keys; see Backend::rope.
struct RotaryEmbedding {
  std::vector<float> inverse_frequencies;  // [head_dim / 2], radians per position
  float attention_factor = 1.0f;           // scales the turned pairs

  bool operator==(const RotaryEmbedding&) const = default;
};

// The next tokens of one sequence: `rows` of them, at positions cache->length() ...
struct SequenceRows {
  KvCache* cache = nullptr;
  int64_t rows = 0;
};
// Several sequences that are computed together, so that weights are read once for all of them. The
// rows of a matrix are the tokens of the first sequence, then those of the second, and so on. No
// cache occurs twice.
using Batch = std::span<const SequenceRows>;

struct AttentionShape {
  int64_t num_attention_heads = 0;
  // Divides num_attention_heads. Head h reads key-value head h / (heads / key-value heads).
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t sliding_window = 0;  // 0: none; w: position i sees positions in (i - w, i]

  bool operator==(const AttentionShape&) const = default;
};

// The weights of one layer's attention. The matrices are views that need to live only while the
// layer is made.
struct AttentionWeight {
  AttentionShape shape;
  LinearWeight q, k, v;               // [H] to [heads*head_dim] and to [kv_heads*head_dim]
  LinearWeight o;                     // [heads*head_dim] to [H]
  std::vector<float> q_norm, k_norm;  // [head_dim]; gains of the heads' RMS norms, empty: no norms
  float norm_eps = 0.0f;
};

// A layer's attention that a backend has taken over.
class Attention {
 public:
  virtual ~Attention() = default;
  // Computes y = o(attention(rope(norm(q(x))), rope(norm(k(x))), v(x))) for the new tokens x [M,H],
  // and stores their keys and values as `layer` of the batch's caches. Does not change the caches'
  // lengths. y [M,H] does not overlap x.
  virtual void apply(ConstMatrixView x, const RotaryEmbedding& rotary, int64_t layer, Batch batch,
                     MutableMatrixView y) const = 0;
};

// Returns a layer that computes by the linear layers, norms, rotary embedding and attention of
// `backend`, which must outlive it.
std::unique_ptr<Attention> compose_attention(const Backend& backend, const AttentionWeight& weight);

}  // namespace neuronmm::ops
