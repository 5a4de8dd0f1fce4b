#pragma once
// A backend that passes operations on to another one. Derived classes watch or change some of them:
// the recorder of compression, the shares of a model that several processes compute, and tests.
//
// Operations that a backend composes of its others (make_attention, make_mixture, make_lm_head,
// apply_together)
// are not passed on, so that they use what a derived class overrides.

#include <memory>
#include <string>
#include <utility>

#include "ops/backend.h"

namespace neuronmm::ops {

class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> inner)
      : owned_(std::move(inner)), inner_(*owned_) {}
  // `inner` must outlive this backend.
  explicit ForwardingBackend(const Backend& inner) : inner_(inner) {}

  std::string name() const override { return inner_.name(); }
  double clock_seconds() const override { return inner_.clock_seconds(); }
  Status supports(const MlpWeight& weight) const override { return inner_.supports(weight); }
  Status supports_mixture(const MixtureWeight& weight) const override {
    return inner_.supports_mixture(weight);
  }
  Status prepare(int64_t tokens) const override { return inner_.prepare(tokens); }
  bool rounds_foreign_weights() const override { return inner_.rounds_foreign_weights(); }
  std::unique_ptr<Linear> make_linear(const LinearWeight& weight) const override {
    return inner_.make_linear(weight);
  }
  std::unique_ptr<Mlp> make_mlp(const MlpWeight& weight) const override {
    return inner_.make_mlp(weight);
  }
  std::unique_ptr<KvCache> make_kv_cache(const KvCacheShape& shape) const override {
    return inner_.make_kv_cache(shape);
  }
  DType cache_dtype(DType wanted) const override { return inner_.cache_dtype(wanted); }
  void rms_norm(ConstMatrixView x, std::span<const float> weight, float eps,
                MutableMatrixView y) const override {
    inner_.rms_norm(x, weight, eps, y);
  }
  void rope(MutableMatrixView x, int64_t head_dim, std::span<const int64_t> positions,
            const RotaryEmbedding& rotary) const override {
    inner_.rope(x, head_dim, positions, rotary);
  }
  void attention(const AttentionShape& shape, int64_t layer, ConstMatrixView q, ConstMatrixView k,
                 ConstMatrixView v, Batch batch, MutableMatrixView y) const override {
    inner_.attention(shape, layer, q, k, v, batch, y);
  }
  void add(ConstMatrixView x, MutableMatrixView y) const override { inner_.add(x, y); }
  void scale(float factor, MutableMatrixView y) const override { inner_.scale(factor, y); }
  void soft_cap(float cap, MutableMatrixView y) const override { inner_.soft_cap(cap, y); }

 protected:
  const Backend& inner() const { return inner_; }

 private:
  const std::unique_ptr<Backend> owned_;  // null: somebody else owns it
  const Backend& inner_;
};

}  // namespace neuronmm::ops
