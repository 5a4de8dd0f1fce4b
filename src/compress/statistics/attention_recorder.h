#pragma once
// A backend that records what the linear layers of attention read. A decoder layer made on it
// computes the same values as on the backend behind it, and observers get the inputs.
// mlp_statistics.cc sums up Gram matrices in this way.

#include <functional>

#include "base/tensor.h"
#include "ops/forwarding_backend.h"

namespace neuronmm::compress {

// The number of tokens of each sequence for which mixed inputs are computed. Assumed: so few tokens
// cost little compared with the layer itself.
inline constexpr int64_t kMixedTokens = 512;

// Forwards every call to another backend. It takes one sequence at a time; a larger batch aborts.
class AttentionRecorder : public ops::ForwardingBackend {
 public:
  // Receives the inputs of a linear layer, one token per row.
  using Seen = std::function<void(ConstMatrixView rows)>;
  // The observers of a layer's inputs.
  // * `projections` gets what q, k and v read.
  // * `mixed` gets inputs of v after attention has mixed them: for each token, the sum of all
  //   inputs times the attention weights of one head. The head changes from token to token. Only
  //   the first kMixedTokens tokens of a sequence are mixed.
  // * `heads` gets what the output projection reads.
  //
  // The output of v reaches the rest of the model only as such mixtures. A token that all others
  // attend to therefore counts in `mixed` for as much as it does in the model. Measured on SmolLM2
  // with all linear layers in 4 bits: rounding v by mixed inputs lowers the KL divergence by a
  // tenth.
  struct Observers {
    Seen projections, mixed, heads;
  };
  AttentionRecorder(const ops::Backend& backend, Observers observers)
      : ForwardingBackend(backend), observers_(std::move(observers)) {}

  std::unique_ptr<ops::Linear> make_linear(const ops::LinearWeight& weight) const override;
  void apply_together(std::span<const ops::Linear* const> linears, ConstMatrixView x,
                      std::span<const MutableMatrixView> ys) const override;
  void attention(const ops::AttentionShape& shape, int64_t layer, ConstMatrixView q,
                 ConstMatrixView k, ConstMatrixView v, ops::Batch batch,
                 MutableMatrixView y) const override;

 private:
  Observers observers_;
  // The inputs of q, k and v of the layer that runs.
  mutable Matrix inputs_;
};

}  // namespace neuronmm::compress
