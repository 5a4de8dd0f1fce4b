#pragma once
// The reference backend with a hook, with which a test can count forward calls or interrupt in the
// middle of one.

#include <functional>

#include "ops/forwarding_backend.h"
#include "ops/reference.h"

namespace neuronmm::eval {

class WatchedBackend : public ops::ForwardingBackend {
 public:
  WatchedBackend() : ForwardingBackend(ops::make_reference_backend()) {}

  // Called before every attention, once per layer and forward call.
  std::function<void()> on_attention = [] {};

  void attention(const ops::AttentionShape& shape, int64_t layer, ConstMatrixView q,
                 ConstMatrixView k, ConstMatrixView v, ops::Batch batch,
                 MutableMatrixView y) const override {
    on_attention();
    ForwardingBackend::attention(shape, layer, q, k, v, batch, y);
  }
};

}  // namespace neuronmm::eval
