#pragma once
// What a device must offer to run a decoder-only transformer. `model` sees only this interface;
// apps/ choose the backend. Activations are fp32 and row-major, one token per row. Weights keep the
// checkpoint's dtype until a backend packs them. The contract of each operation is the formula
// beside it; ops/reference.h computes exactly that, slowly.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "ops/kv_cache.h"
#include "ops/log_sum.h"
#include "ops/wanted_logits.h"
#include "ops/weights.h"

namespace neuronmm::ops {

// What rotary position embeddings (RoPE) turn the heads of queries and keys by; see Backend::rope.
struct RotaryEmbedding {
  std::vector<float> inverse_frequencies;  // [head_dim / 2], radians per position
  float attention_factor = 1.0f;           // of the turned pairs' lengths

  bool operator==(const RotaryEmbedding&) const = default;
};

// A weight that a backend has taken over. It may have packed a copy or may read the mapped
// checkpoint, which must outlive it.
class Linear {
 public:
  virtual ~Linear() = default;
  // Y[M,N] = X[M,K] · W (+ bias on every row). Any M >= 0. x and y do not overlap.
  virtual void apply(ConstMatrixView x, MutableMatrixView y) const = 0;
  // The same where of row i of y no more than wanted[i] will be looked at. Where a backend leaves
  // out the rest, it is kUnwantedLogit; the first value that is not finite is never left out.
  // Returns the rows' log sums that were wanted and that y no longer tells; nothing where y is
  // whole.
  virtual std::vector<std::optional<LogSum>> apply_wanted(ConstMatrixView x,
                                                          std::span<const WantedLogits> /*wanted*/,
                                                          MutableMatrixView y) const {
    apply(x, y);
    return {};
  }
};

class Mlp {
 public:
  virtual ~Mlp() = default;
  // Y[M,H] = down(silu(gate(X)) * up(X)), X[M,H], silu(z) = z / (1 + exp(-z)).
  virtual void apply(ConstMatrixView x, MutableMatrixView y) const = 0;
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
  int64_t num_key_value_heads =
      0;  // divides num_attention_heads; head h reads kv head h / (heads / kv_heads)
  int64_t head_dim = 0;
  int64_t sliding_window = 0;  // 0: none; w: position i sees positions in (i - w, i]
  // Where a process computes some of a model's heads and they do not divide by their kv heads: how
  // many heads share a kv head, and how many of the first kv head's are not here. Head h reads kv
  // head (h + skipped) / group. 0: the rule above.
  int64_t group = 0, skipped = 0;

  bool operator==(const AttentionShape&) const = default;
};

// What a linear layer is to a transformer, for backends that compute a part of it.
enum class Role { kQueries, kKeysAndValues, kAttentionOutput, kVocabulary };

// A model's counterparts in other processes, each of which computes its part of every pass.
class Counterparts {
 public:
  struct Sequence {
    std::span<const int32_t> tokens;
    KvCache* cache = nullptr;  // with room for them
    int logits = 0;            // as the model counts: the counterparts must do what it does
    std::span<const WantedLogits> wanted;  // as the model has it
  };

  virtual ~Counterparts() = default;
  // Whether all have opened the model. Error: this process's own, or the first of the others'.
  virtual Status opened(const Status& here) = 0;
  // They begin the pass that this process is about to begin.
  virtual void begin_pass(std::span<const Sequence> batch) = 0;
  // A block of this backend's caches has been copied to another.
  virtual void block_copied(const KvBlock& from, const KvBlock& to) = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;  // "reference", "cpu (AVX3_ZEN4, 2 threads)"

  // The clock that latencies are taken from, in seconds since whenever: the wall's, or the time
  // that a simulated device would have worked so far.
  virtual double clock_seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  // Whether make_mlp takes an MLP of this form. To be asked before any layer is made.
  virtual Status supports(const MlpWeight& /*weight*/) const { return {}; }
  // Whether the layers made so far can take `tokens` rows at once. To be asked before they do.
  virtual Status prepare(int64_t /*tokens*/) const { return {}; }

  // The heads of `whole` that this backend computes, in models whose weights are rounded or not:
  // what make_part makes has their widths, and caches their kv heads.
  virtual Status supports(const AttentionShape& /*whole*/, bool /*quantized*/) const { return {}; }
  virtual AttentionShape heads_here(const AttentionShape& whole, bool /*quantized*/) const {
    return whole;
  }
  // Asks other processes that compute with this one to open the model folder, too. Null: none do.
  virtual Result<std::unique_ptr<Counterparts>> open_counterparts(
      const std::string& /*folder*/) const {
    return std::unique_ptr<Counterparts>();
  }

  virtual std::unique_ptr<Linear> make_linear(const LinearWeight& weight) const = 0;
  // A layer of which this backend may compute a part; `whole` are all heads of the model. Of
  // queries, keys and values only the columns of heads_here() come out. The attention's output has
  // them as its input, and its result is complete. So are the vocabulary's columns, in the process
  // that has Counterparts.
  virtual std::unique_ptr<Linear> make_part(const LinearWeight& weight, Role /*role*/,
                                            const AttentionShape& /*whole*/,
                                            bool /*quantized*/) const {
    return make_linear(weight);
  }
  virtual std::unique_ptr<Mlp> make_mlp(const MlpWeight& weight) const = 0;
  virtual std::unique_ptr<KvCache> make_kv_cache(const KvCacheShape& shape) const = 0;

  // ys[i] = linears[i](x), of layers that this backend made and that read the same rows: one loop
  // over all their weights, where a backend gains from it.
  virtual void apply_together(std::span<const Linear* const> linears, ConstMatrixView x,
                              std::span<const MutableMatrixView> ys) const {
    for (size_t i = 0; i < linears.size(); ++i) linears[i]->apply(x, ys[i]);
  }

  // y[i,:] = x[i,:] / sqrt(mean(x[i,:]^2) + eps) * weight. x and y may be the same.
  virtual void rms_norm(ConstMatrixView x, std::span<const float> weight, float eps,
                        MutableMatrixView y) const = 0;

  // Rotary embedding in place, Hugging Face's half-split pairing. x[M, heads*head_dim]; row i is at
  // positions[i]; for j < head_dim/2, angle a = position * inverse_frequencies[j], s =
  // attention_factor:
  //   (x[j], x[j + head_dim/2]) <- (x[j] s cos a - x[j + head_dim/2] s sin a, x[j + head_dim/2] s
  //   cos a + x[j] s sin a)
  virtual void rope(MutableMatrixView x, int64_t head_dim, std::span<const int64_t> positions,
                    const RotaryEmbedding& rotary) const = 0;

  // Causal attention of the new tokens of every sequence in `layer`. Stores k, v [M,
  // kv_heads*head_dim] at their positions (without changing the caches' lengths), then for every
  // new position i and head, over the positions j of the same sequence:
  //   y = softmax(q · K[j]^T / sqrt(head_dim), j <= i and inside the window) · V[j].   q, y: [M,
  //   heads*head_dim]
  // length + rows must not exceed a cache's capacity.
  virtual void attention(const AttentionShape& shape, int64_t layer, ConstMatrixView q,
                         ConstMatrixView k, ConstMatrixView v, Batch batch,
                         MutableMatrixView y) const = 0;

  // y += x.
  virtual void add(ConstMatrixView x, MutableMatrixView y) const = 0;
};

}  // namespace neuronmm::ops
