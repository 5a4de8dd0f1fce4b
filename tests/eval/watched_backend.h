#pragma once
// The reference backend with a hook: a test can count forward calls, or interrupt in the middle.

#include <functional>
#include <memory>

#include "ops/reference.h"

namespace neuronmm::eval {

class WatchedBackend : public ops::Backend {
 public:
  // Called before every attention: once per layer and forward call.
  std::function<void()> on_attention = [] {};

  std::string name() const override { return "watched"; }
  std::unique_ptr<ops::Linear> make_linear(const ops::LinearWeight& weight) const override {
    return inner_->make_linear(weight);
  }
  std::unique_ptr<ops::Mlp> make_mlp(const ops::MlpWeight& weight) const override {
    return inner_->make_mlp(weight);
  }
  std::unique_ptr<ops::KvCache> make_kv_cache(const ops::KvCacheShape& shape) const override {
    return inner_->make_kv_cache(shape);
  }
  void rms_norm(ConstMatrixView x, std::span<const float> weight, float eps,
                MutableMatrixView y) const override {
    inner_->rms_norm(x, weight, eps, y);
  }
  void rope(MutableMatrixView x, int64_t head_dim, std::span<const int64_t> positions,
            std::span<const float> frequencies) const override {
    inner_->rope(x, head_dim, positions, frequencies);
  }
  void attention(const ops::AttentionShape& shape, int64_t layer, ConstMatrixView q,
                 ConstMatrixView k, ConstMatrixView v, ops::Batch batch,
                 MutableMatrixView y) const override {
    on_attention();
    inner_->attention(shape, layer, q, k, v, batch, y);
  }
  void add(ConstMatrixView x, MutableMatrixView y) const override { inner_->add(x, y); }

 private:
  std::unique_ptr<ops::Backend> inner_ = ops::make_reference_backend();
};

}  // namespace neuronmm::eval
