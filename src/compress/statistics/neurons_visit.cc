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

// Computes the neurons of a narrowed MLP: activate(gate) * up.
class NarrowNeurons {
 public:
  NarrowNeurons(const ops::MlpWeight& weights, const ops::Backend& backend)
      : gate_(backend.make_linear(weights.gate)),
        up_(backend.make_linear(weights.up)),
        activation_(weights.activation),
        count_(weights.gate.out_features()) {}

  Matrix operator()(ConstMatrixView x) const {
    Matrix gate(x.rows, count_), up(x.rows, count_), h(x.rows, count_);
    gate_->apply(x, gate.view());
    up_->apply(x, up.view());
    parallel_for(x.rows, [&](int64_t i) {
      for (int64_t j = 0; j < count_; ++j) {
        const float g = gate.row(i)[j];
        const float active = activation_ == Activation::kSilu
                                 ? g / (1.0f + std::exp(-g))
                                 : static_cast<float>(activate(activation_, g));
        h.row(i)[j] = active * up.row(i)[j];
      }
    });
    return h;
  }

 private:
  std::unique_ptr<ops::Linear> gate_, up_;
  Activation activation_;
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
        normed_mlp_(context.config, weights, weights.mlp, context.backend),
        down_(weights.mlp.down),
        layer_(context.config, 0, weights, context.backend) {}

  void visit(const SequenceState& state) override {
    const MutableMatrixView hidden = state.hidden;
    model::begin_sequence(context_.config, hidden.rows, context_.cache);
    const ops::SequenceRows rows = {&context_.cache, hidden.rows};
    layer_.attention_half(hidden, context_.rotary, std::span(&rows, 1));
    const Matrix h = neurons_(normed_mlp_.input(hidden).view());
    Matrix target = normed_mlp_.output(hidden);
    Matrix added = target;
    normed_mlp_.finish(added.view());
    context_.backend.add(added.view(), hidden);
    remove_bias(down_, target.view());
    add_gram(h.view(), state.sums[kNeuronGram]);
    add_cross_gram(target.view(), h.view(), state.sums[kTargetCross]);
  }

 private:
  VisitContext context_;
  ReceivedMlp mlp_;
  NarrowNeurons neurons_;
  NormedMlp normed_mlp_;
  ops::LinearWeight down_;
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
