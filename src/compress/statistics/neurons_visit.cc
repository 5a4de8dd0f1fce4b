#include "compress/statistics/neurons_visit.h"

#include <cmath>
#include <memory>

#include "base/parallel.h"
#include "compress/linear_algebra/gram.h"
#include "compress/statistics/mlp_message.h"
#include "compress/statistics/normed_mlp.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

// Computes the neurons of a narrowed MLP: silu(gate) * up.
class NarrowNeurons {
 public:
  NarrowNeurons(const ops::MlpWeight& weights, const ops::Backend& backend)
      : gate_(backend.make_linear(weights.gate)),
        up_(backend.make_linear(weights.up)),
        count_(weights.gate.out_features()) {}

  Matrix operator()(ConstMatrixView x) const {
    Matrix gate(x.rows, count_), up(x.rows, count_), h(x.rows, count_);
    gate_->apply(x, gate.view());
    up_->apply(x, up.view());
    parallel_for(x.rows, [&](int64_t i) {
      for (int64_t j = 0; j < count_; ++j) {
        const float g = gate.row(i)[j];
        h.row(i)[j] = g / (1.0f + std::exp(-g)) * up.row(i)[j];
      }
    });
    return h;
  }

 private:
  std::unique_ptr<ops::Linear> gate_, up_;
  int64_t count_;
};

// Sums up what down is fitted to. The weights of the narrowed gate and up come with the visit's
// arguments.
class NeuronsVisit : public SequenceVisit {
 public:
  NeuronsVisit(const VisitContext& context, const model::LayerWeights& weights, MessageReader in)
      : context_(context),
        mlp_(in, weights.mlp),
        neurons_(mlp_.weight(), context.backend),
        normed_mlp_(context.config, weights.post_attention_norm, weights.mlp, context.backend),
        layer_(context.config, 0, weights, context.backend) {}

  void visit(const SequenceState& state) override {
    const MutableMatrixView hidden = state.hidden;
    const ops::SequenceRows rows = {&context_.cache, hidden.rows};
    layer_.attention_half(hidden, context_.rotary, std::span(&rows, 1));
    const Matrix h = neurons_(normed_mlp_.input(hidden).view());
    const Matrix target = normed_mlp_.output(hidden);
    context_.backend.add(target.view(), hidden);
    add_gram(h.view(), state.sums[kNeuronGram]);
    add_cross_gram(target.view(), h.view(), state.sums[kTargetCross]);
  }

 private:
  VisitContext context_;
  ReceivedMlp mlp_;
  NarrowNeurons neurons_;
  NormedMlp normed_mlp_;
  model::DecoderLayer layer_;
};

}  // namespace

LayerVisit neurons_visit(int64_t layer, const ops::MlpWeight& narrow, const ops::MlpWeight& dense) {
  MessageWriter arguments;
  put_mlp(narrow, dense, arguments);
  return {.kind = VisitKind::kNeurons, .layer = layer, .arguments = arguments.take()};
}

VisitResult make_neurons_visit(const VisitContext& context, const LayerVisit& visit) {
  NMM_ASSIGN(const auto weights,
             model::layer_weights(context.checkpoint, context.config, visit.layer));
  return VisitResult(
      std::make_unique<NeuronsVisit>(context, weights, MessageReader(visit.arguments)));
}

}  // namespace neuronmm::compress
