#pragma once
// The operations that a device must offer to run a decoder-only transformer. `model` sees only this
// interface; apps/ choose the backend. Activations are fp32 and row-major, one token per row.
// Weights keep the checkpoint's dtype until a backend packs them. The comment at each operation
// gives its formula, which is its contract; ops/reference.h computes exactly that, slowly. Shapes
// that do not fit are programming errors (NMM_CHECK).

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "ops/attention.h"
#include "ops/kv_cache.h"
#include "ops/log_sum.h"
#include "ops/mixture.h"
#include "ops/wanted_logits.h"
#include "ops/weights.h"

namespace neuronmm::ops {

// A weight that a backend has taken over. The backend may have packed a copy, or it may read the
// mapped checkpoint, which must then outlive the layer.
class Linear {
 public:
  virtual ~Linear() = default;
  // Computes Y[M,N] = X[M,K] · W (+ bias on every row), for any M >= 0. x and y do not overlap.
  virtual void apply(ConstMatrixView x, MutableMatrixView y) const = 0;
  // Computes the same, but the caller will look only at the values of row i that wanted[i] names. A
  // backend may set the other values to kUnwantedLogit, except the first that is not finite.
  // Returns the wanted log sums of the rows that are then incomplete, and nothing if y is complete.
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
  // Computes Y[M,H] = down(gated(gate(X), up(X))) of X[M,H] (base/activation.h), or the sum of some
  // such MLPs (ops/mixture.h).
  virtual void apply(ConstMatrixView x, MutableMatrixView y) const = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;  // "reference", "cpu (AVX3_ZEN4, 2 threads)"

  // Returns the time that latencies are computed from, in seconds since an arbitrary moment. A
  // simulated device returns the time that it would have worked so far.
  virtual double clock_seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  // Tells whether make_mlp takes an MLP of this form. Callers ask before any layer is made.
  virtual Status supports(const MlpWeight& /*weight*/) const { return {}; }
  // Tells whether make_mixture takes a mixture of this form.
  virtual Status supports_mixture(const MixtureWeight& weight) const {
    for (const MlpWeight& expert : weight.experts) NMM_TRY(supports(expert));
    return {};
  }
  // Tells whether the layers made so far can take `tokens` rows at once. Callers ask before they
  // apply them to as many.
  virtual Status prepare(int64_t /*tokens*/) const { return {}; }

  // Tells whether layers round weights in foreign formats (ForeignFormat::packed_format), instead
  // of computing with exactly the values that the file has.
  virtual bool rounds_foreign_weights() const { return false; }

  virtual std::unique_ptr<Linear> make_linear(const LinearWeight& weight) const = 0;
  virtual std::unique_ptr<Mlp> make_mlp(const MlpWeight& weight) const = 0;
  // Unless overridden, the layer is composed of this backend's linear layers and MLPs.
  virtual std::unique_ptr<Mlp> make_mixture(const MixtureWeight& weight) const {
    return compose_mixture(*this, weight);
  }
  virtual std::unique_ptr<KvCache> make_kv_cache(const KvCacheShape& shape) const = 0;
  // Returns the dtype in which this backend keeps the keys and values of a model, of which `wanted`
  // (kBF16 or kF32) is enough.
  virtual DType cache_dtype(DType wanted) const { return wanted; }
  // Unless overridden, the layer is composed of this backend's other operations.
  virtual std::unique_ptr<Attention> make_attention(const AttentionWeight& weight) const {
    return compose_attention(*this, weight);
  }
  // Makes the projection to the vocabulary, the only layer whose apply_wanted is called.
  virtual std::unique_ptr<Linear> make_lm_head(const LinearWeight& weight) const {
    return make_linear(weight);
  }

  // Computes ys[i] = linears[i](x) for layers that this backend made and that read the same rows. A
  // backend may run one loop over all their weights.
  virtual void apply_together(std::span<const Linear* const> linears, ConstMatrixView x,
                              std::span<const MutableMatrixView> ys) const {
    for (size_t i = 0; i < linears.size(); ++i) linears[i]->apply(x, ys[i]);
  }

  // Computes y[i,:] = x[i,:] / sqrt(mean(x[i,:]^2) + eps) * weight. x and y may be the same.
  virtual void rms_norm(ConstMatrixView x, std::span<const float> weight, float eps,
                        MutableMatrixView y) const = 0;

  // Applies the rotary embedding in place, with Hugging Face's half-split pairing. x[M,
  // heads*head_dim]; row i is at positions[i]. Each frequency turns a pair, so h = the number of
  // inverse_frequencies <= head_dim/2. For j < h, with the angle a = position *
  // inverse_frequencies[j] and s = attention_factor:
  //   (x[j], x[j + h]) <- (x[j] s cos a - x[j + h] s sin a, x[j + h] s cos a + x[j] s sin a)
  // The elements from 2h on stay as they are.
  virtual void rope(MutableMatrixView x, int64_t head_dim, std::span<const int64_t> positions,
                    const RotaryEmbedding& rotary) const = 0;

  // Computes causal attention of the new tokens of every sequence in `layer`. Stores k, v [M,
  // kv_heads*head_dim] at their positions (without changing the caches' lengths), then for every
  // new position i and head, over the positions j of the same sequence:
  //   y = softmax(cap(score_scale * q · K[j]^T), j <= i and inside the window) · V[j].   q, y: [M,
  //   heads*head_dim]
  // cap(z) is score_cap * tanh(z / score_cap), or z if there is no cap. With sinks, the softmax has
  // one more logit, shape.sinks[head], which takes its share and adds no value.
  // length + rows must not exceed a cache's capacity.
  virtual void attention(const AttentionShape& shape, int64_t layer, ConstMatrixView q,
                         ConstMatrixView k, ConstMatrixView v, Batch batch,
                         MutableMatrixView y) const = 0;

  // Computes y += x.
  virtual void add(ConstMatrixView x, MutableMatrixView y) const = 0;
  // Computes y *= factor.
  virtual void scale(float factor, MutableMatrixView y) const;
  // Computes y = cap * tanh(y / cap) for cap > 0.
  virtual void soft_cap(float cap, MutableMatrixView y) const;
};

}  // namespace neuronmm::ops
