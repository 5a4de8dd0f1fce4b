#pragma once
// The reference backend with a hook, with which a test can count forward calls or interrupt in the
// middle of one, and with a clock that a test can set.

#include <functional>
#include <optional>

#include "ops/forwarding_backend.h"
#include "ops/reference.h"

namespace neuronmm::eval {

class WatchedBackend : public ops::ForwardingBackend {
 public:
  WatchedBackend() : ForwardingBackend(ops::make_reference_backend()) {}

  // Called before every attention, once per layer and forward call.
  std::function<void()> on_attention = [] {};
  // The backend's clock, if it is set.
  std::optional<double> seconds;

  double clock_seconds() const override {
    return seconds ? *seconds : ForwardingBackend::clock_seconds();
  }

  void attention(const ops::AttentionShape& shape, int64_t layer, ConstMatrixView q,
                 ConstMatrixView k, ConstMatrixView v, ops::Batch batch,
                 MutableMatrixView y) const override {
    on_attention();
    ForwardingBackend::attention(shape, layer, q, k, v, batch, y);
  }
};

}  // namespace neuronmm::eval
