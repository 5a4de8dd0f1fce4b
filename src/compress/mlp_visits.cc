// Stages in which a model that is being compressed runs beside the dense one: stream 0 has the
// dense model's hidden states, stream 1 those of the compressed one.

#include "compress/gram.h"
#include "compress/mlp_half.h"
#include "compress/mlp_message.h"
#include "compress/sequence_visit.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

enum Stream { kDense, kCompressed };

// Sum 0: Σ x̂ x̂ᵀ, sum 1: Σ x x̂ᵀ (mlp_half.h).
class MlpInputsVisit : public SequenceVisit {
 public:
  MlpInputsVisit(const VisitContext& context, const model::LayerWeights& weights)
      : context_(context),
        layer_(context.config, 0, weights, context.backend),
        half_(context.config, weights.post_attention_norm, weights.mlp, context.backend) {}

  void visit(const SequenceState& state) override {
    gather_mlp_inputs(layer_, half_, context_.rotary, &context_.cache,
                      {state.streams[kDense], state.streams[kCompressed]}, state.sums[0],
                      state.sums[1]);
  }

 private:
  VisitContext context_;
  model::DecoderLayer layer_;
  MlpHalf half_;
};

// A layer's second half with the MLP that the stage brings along.
class MlpVisit : public SequenceVisit {
 public:
  MlpVisit(const VisitContext& context, const Stage& stage, const model::LayerWeights& weights)
      : context_(context),
        reader_(stage.arguments),
        mlp_(reader_, weights.mlp),
        half_(context.config, weights.post_attention_norm, mlp_.weight(), context.backend) {}

 protected:
  VisitContext context_;
  MessageReader reader_;
  ReceivedMlp mlp_;
  MlpHalf half_;
};

// With y what the MLP makes and t what is missing to the dense model's hidden states after the
// layer. Sum 0: Σ y yᵀ, sum 1: Σ t yᵀ.
class MlpOutputsVisit : public MlpVisit {
 public:
  using MlpVisit::MlpVisit;
  void visit(const SequenceState& state) override {
    const MutableMatrixView compressed = state.streams[kCompressed];
    const Matrix output = half_.output(compressed);
    const Matrix target = difference(state.streams[kDense], compressed);
    add_gram(output.view(), state.sums[0]);
    add_cross_gram(target.view(), output.view(), state.sums[1]);
  }
};

// The compressed stream passes the MLP and is what the next layer of the compressed model reads.
class PassMlpVisit : public MlpVisit {
 public:
  using MlpVisit::MlpVisit;
  void visit(const SequenceState& state) override {
    const MutableMatrixView compressed = state.streams[kCompressed];
    context_.backend.add(half_.output(compressed).view(), compressed);
  }
};

}  // namespace

VisitResult make_mlp_inputs_visit(const VisitContext& context, const Stage& stage) {
  NMM_ASSIGN(const auto weights,
             model::layer_weights(context.checkpoint, context.config, stage.layer));
  return VisitResult(std::make_unique<MlpInputsVisit>(context, weights));
}

VisitResult make_mlp_outputs_visit(const VisitContext& context, const Stage& stage) {
  NMM_ASSIGN(const auto weights,
             model::layer_weights(context.checkpoint, context.config, stage.layer));
  return VisitResult(std::make_unique<MlpOutputsVisit>(context, stage, weights));
}

VisitResult make_pass_mlp_visit(const VisitContext& context, const Stage& stage) {
  NMM_ASSIGN(const auto weights,
             model::layer_weights(context.checkpoint, context.config, stage.layer));
  return VisitResult(std::make_unique<PassMlpVisit>(context, stage, weights));
}

}  // namespace neuronmm::compress
