#pragma once
// A backend that passes every call on to another one; tests derive from it to watch or change some.

#include <memory>
#include <utility>

#include "ops/backend.h"

namespace neuronmm::ops {

class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  std::string name() const override { return inner_->name(); }
  Status supports(const MlpWeight& weight) const override { return inner_->supports(weight); }
  std::unique_ptr<Linear> make_linear(const LinearWeight& weight) const override {
    return inner_->make_linear(weight);
  }
  std::unique_ptr<Mlp> make_mlp(const MlpWeight& weight) const override {
    return inner_->make_mlp(weight);
  }
  std::unique_ptr<KvCache> make_kv_cache(const KvCacheShape& shape) const override {
    return inner_->make_kv_cache(shape);
  }
  void rms_norm(ConstMatrixView x, std::span<const float> weight, float eps,
                MutableMatrixView y) const override {
    inner_->rms_norm(x, weight, eps, y);
  }
  void rope(MutableMatrixView x, int64_t head_dim, std::span<const int64_t> positions,
            const RotaryEmbedding& rotary) const override {
    inner_->rope(x, head_dim, positions, rotary);
  }
  void attention(const AttentionShape& shape, int64_t layer, ConstMatrixView q, ConstMatrixView k,
                 ConstMatrixView v, Batch batch, MutableMatrixView y) const override {
    inner_->attention(shape, layer, q, k, v, batch, y);
  }
  void add(ConstMatrixView x, MutableMatrixView y) const override { inner_->add(x, y); }

 protected:
  const Backend& inner() const { return *inner_; }

 private:
  std::unique_ptr<Backend> inner_;
};

}  // namespace neuronmm::ops
