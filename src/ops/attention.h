#pragma once
// The attention of one decoder layer: its weights, the sequences of a batch, and the layer itself
// as one operation. Model code makes the layer with Backend::make_attention and applies it once per
// forward pass. Shapes that do not fit are programming errors (NMM_CHECK).
//
// Letters: M tokens of the batch, H hidden_size.

#include <cstdint>
#include <functional>
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
  // One for each pair of elements that turns, at most head_dim / 2, in radians per position. If
  // there are none, the layer has no RoPE.
  std::vector<float> inverse_frequencies;
  float attention_factor = 1.0f;  // scales the turned pairs
  // The frequencies of sequences whose cache says long_rope(). Empty: all sequences turn alike.
  std::vector<float> long_inverse_frequencies = {};

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
  double score_scale = 0.0;    // 0: 1 / sqrt(head_dim)
  double score_cap = 0.0;      // 0: none
  // One logit per head, which joins the softmax of every query and then is dropped. It is neither
  // scaled nor capped, and no window hides it. Empty: none.
  std::vector<float> sinks = {};

  bool operator==(const AttentionShape&) const = default;
};

// The place and the width of the RMS norms of queries and keys.
enum class HeadNorms {
  kBeforeRope,  // every head by itself
  kAfterRope,   // every head by itself
  kWholeWidth,  // all heads together, before RoPE
};

// Returns the mean squares of the rows of q and then of k, over the whole width of the model. A
// process that has some of the heads makes one of its own.
using WholeWidthMeans = std::function<std::vector<double>(ConstMatrixView q, ConstMatrixView k)>;

// The weights of one layer's attention. The matrices are views that need to live only while the
// layer is made.
struct AttentionWeight {
  AttentionShape shape;
  LinearWeight q, k, v;  // [H] to [heads*head_dim] and to [kv_heads*head_dim]
  LinearWeight o;        // [heads*head_dim] to [H]
  // The gains of the RMS norms of q and k: [head_dim], or [heads*head_dim] and [kv_heads*head_dim]
  // for kWholeWidth. Empty: no norms.
  std::vector<float> q_norm = {}, k_norm = {};
  HeadNorms norms = HeadNorms::kBeforeRope;
  WholeWidthMeans whole_width_means = {};  // empty: this layer has all heads
  float norm_eps = 0.0f;
  // Multiplies the query at position p by 1 + beta * log(1 + floor(p / temperature_context)) after
  // RoPE. 0: nothing.
  double temperature_beta = 0.0;
  int64_t temperature_context = 0;
  // Limits q and k behind their norms, and v, to [-clamp, clamp] before RoPE. 0: nothing.
  float clamp = 0.0f;
};

// A layer's attention that a backend has taken over.
class Attention {
 public:
  virtual ~Attention() = default;
  // Computes y = o(attention(t * rope(norm(q(x))), rope(norm(k(x))), v(x))) for the new tokens x
  // [M,H], where t is the factor of temperature_beta, `norms` tells the place of the norms, and
  // `clamp` limits what they return, and stores their keys and values as `layer` of the batch's
  // caches. Does not change the caches' lengths. y [M,H] does not overlap x.
  virtual void apply(ConstMatrixView x, const RotaryEmbedding& rotary, int64_t layer, Batch batch,
                     MutableMatrixView y) const = 0;
};

// Returns a layer that computes by the linear layers, norms, rotary embedding and attention of
// `backend`, which must outlive it.
std::unique_ptr<Attention> compose_attention(const Backend& backend, const AttentionWeight& weight);

}  // namespace neuronmm::ops
