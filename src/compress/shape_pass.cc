#include "compress/shape_pass.h"

#include <algorithm>
#include <cmath>
#include <system_error>

#include "base/parallel.h"
#include "compress/factorize_matrix.h"
#include "compress/gram.h"
#include "compress/layerwise_pass.h"
#include "compress/mlp_half.h"
#include "compress/mlp_message.h"
#include "compress/narrow_file.h"
#include "compress/narrow_weights.h"
#include "compress/refit.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

constexpr const char* kShapePass = "shapes";

enum PassStream { kDenseStream, kNarrowStream };
// A layer that is fitted locally has the second stage alone.
enum PassStage { kFitInputs, kFitOutputs, kGoOn, kPassStages };
enum PassSum { kInputGram, kInputCross, kNeuronGram, kTargetCross };

// λ of the fit of down, of the median diagonal of ĥ's Gram matrix. Assumed, as the share that
// refit.h measured; of the median, because one massive activation can be 99 % of the trace.
constexpr double kDownRidge = 1e-3;

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
  return values[values.size() / 2];
}

// W₀ + (C - W₀·G)(G + λ I)⁻¹ for C = Σ t·ĥᵀ and G = Σ ĥ·ĥᵀ.
Result<DoubleMatrix> fit_down(const DoubleMatrix& start, const DoubleMatrix& gram,
                              const DoubleMatrix& cross) {
  const double middle = median(diagonal(gram));
  DoubleMatrix ridged = gram;
  for (int64_t j = 0; j < ridged.columns(); ++j) {
    ridged(j, j) += middle > 0.0 ? kDownRidge * middle : 1.0;
  }
  const DoubleMatrix missing =
      difference(cross, multiply(start, Transpose::kNo, gram, Transpose::kNo));
  NMM_ASSIGN(const DoubleMatrix change_t, solve_positive(std::move(ridged), transposed(missing)));
  DoubleMatrix down_t = transposed(change_t);
  add(start, down_t);
  return down_t;
}

// silu(gate) * up.
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

// What down is fitted to: the neurons of the narrowed gate and up, which the stage brings along,
// and what it should make of them.
class NeuronsVisit : public SequenceVisit {
 public:
  NeuronsVisit(const VisitContext& context, const model::LayerWeights& weights, MessageReader in)
      : context_(context),
        fit_to_(in.value<FitTo>()),
        mlp_(in, weights.mlp),
        neurons_(mlp_.weight(), context.backend),
        half_(context.config, weights.post_attention_norm, weights.mlp, context.backend),
        layer_(context.config, 0, weights, context.backend) {}

  void visit(const SequenceState& state) override {
    const MutableMatrixView dense = state.streams[kDenseStream];
    Matrix target, h;
    if (fit_to_ == FitTo::kErrorAware) {
      const MutableMatrixView narrow = state.streams[kNarrowStream];
      h = neurons_(half_.input(narrow).view());
      target = difference(dense, narrow);
    } else {
      const ops::SequenceRows rows = {&context_.cache, dense.rows};
      layer_.attention_half(dense, context_.rotary, std::span(&rows, 1));
      h = neurons_(half_.input(dense).view());
      target = half_.output(dense);
      context_.backend.add(target.view(), dense);
    }
    add_gram(h.view(), state.sums[kNeuronGram]);
    add_cross_gram(target.view(), h.view(), state.sums[kTargetCross]);
  }

 private:
  VisitContext context_;
  FitTo fit_to_;
  ReceivedMlp mlp_;
  NarrowNeurons neurons_;
  MlpHalf half_;
  model::DecoderLayer layer_;
};

class ShapePassRun {
 public:
  ShapePassRun(const CompressionInputs& inputs, const ShapePass& settings, const fs::path& work)
      : inputs_(inputs), config_(inputs.config), settings_(settings), work_(work) {}

  Status run() {
    NMM_ASSIGN(LayerwisePass pass, open());
    while (!pass.done()) {
      const Status done = run_layer(pass);
      if (!done.ok()) return done;
      NMM_TRY(pass.next_layer());
    }
    return {};
  }

 private:
  bool error_aware() const { return settings_.fit_to == FitTo::kErrorAware; }
  fs::path inputs_path(int64_t layer) const {
    return work_ / fmt::format("inputs-{:05}.safetensors", layer);
  }

  // The saved state counts only if all layers behind it are still there.
  Result<LayerwisePass> open() {
    const int64_t hidden = config_.hidden_size, inner = config_.intermediate_size;
    const LayerwisePass::Settings settings = {
        .name = kShapePass,
        .label = error_aware() ? "compressing" : "fitting",
        .stages = error_aware() ? int64_t{kPassStages} : 1,
        .streams = error_aware() ? 2 : 1,
        .sums = {{hidden, hidden}, {hidden, hidden}, {inner, inner}, {hidden, inner}}};
    NMM_ASSIGN(auto pass, LayerwisePass::open(pass_inputs(inputs_), work_, settings));
    bool stands = pass.stage() == 0 || !error_aware() || read_narrow_mlp(inputs_path(pass.layer()));
    const int64_t finished = pass.layer() + (pass.stage() == kGoOn ? 1 : 0);
    for (int64_t layer = 0; layer < finished; ++layer) {
      stands = stands && settings_.saved(layer).has_value();
    }
    if (stands) return pass;
    std::error_code ignored;
    fs::remove(LayerwisePass::state_path(work_, kShapePass), ignored);
    return LayerwisePass::open(pass_inputs(inputs_), work_, settings);
  }

  Status run_layer(LayerwisePass& pass) {
    const int64_t layer = pass.layer();
    NMM_ASSIGN(const auto weights, model::layer_weights(inputs_.checkpoint, config_, layer));
    NMM_ASSIGN(KnownMlp known, settings_.know(layer));
    const io::MlpShape& shape = settings_.shapes[static_cast<size_t>(layer)];
    NMM_ASSIGN(KeptNeurons kept,
               keep_neurons(std::move(known.mlp), std::move(known.statistics.neurons), known.metric,
                            known.order, shape));
    stored_ = stored_format(inputs_.weights, weights.mlp.gate.w_t.dtype);
    NarrowMlp narrow;
    if (error_aware()) {
      NMM_ASSIGN(narrow, fit_inputs(pass, kept, shape));
    } else {
      NMM_TRY(narrow_inputs(kept, known.statistics.in, shape, stored_, narrow));
    }
    if (!error_aware() || pass.stage() == kFitOutputs) {
      NMM_TRY(fit_outputs(pass, weights, kept, known.metric, shape, narrow));
      NMM_TRY(settings_.save(layer, narrow));
      if (error_aware()) pass.next_stage();
    }
    // Nothing reads the output of the last layer's compressed MLP.
    if (!error_aware() || layer + 1 == config_.num_hidden_layers) return {};
    const auto saved = settings_.saved(layer);
    if (!saved) return fail("layer {}: its narrowed MLP cannot be read", layer);
    return go_on(pass, weights, *saved);
  }

  // The dense stream passes the whole layer, the narrow one its attention only. Gate and up are
  // narrowed for the input that they will have, and aim at the dense model's.
  Result<NarrowMlp> fit_inputs(LayerwisePass& pass, KeptNeurons& kept, const io::MlpShape& shape) {
    if (pass.stage() > kFitInputs) {
      auto saved = read_narrow_mlp(inputs_path(pass.layer()));
      if (!saved) return fail("{}: cannot be read", inputs_path(pass.layer()).string());
      return *std::move(saved);
    }
    NMM_TRY(pass.run_stage({.kind = StageKind::kMlpInputs, .layer = pass.layer()}));
    NarrowMlp out;
    DoubleMatrix gram = symmetric(pass.sum(kInputGram));
    if (shape.input > 0 || shape.gate > 0 || shape.up > 0) {
      NMM_ASSIGN(const SymmetricEigen eigen, symmetric_eigen(gram));
      const DoubleMatrix map = refit_map(gram, eigen, pass.sum(kInputCross));
      for (DoubleMatrix* weight : {&kept.mlp.gate_t, &kept.mlp.up_t}) {
        *weight = multiply(*weight, Transpose::kNo, map, Transpose::kNo);
      }
    }
    NMM_TRY(narrow_inputs(kept, gram, shape, stored_, out));
    NMM_TRY(write_narrow_mlp(inputs_path(pass.layer()), out, staged_dtype(stored_)));
    pass.next_stage();
    return out;
  }

  // Adds down to `narrow`, which has gate and up.
  Status fit_outputs(LayerwisePass& pass, const model::LayerWeights& weights,
                     const KeptNeurons& kept, const MlpMetric& metric, const io::MlpShape& shape,
                     NarrowMlp& narrow) {
    const NarrowWeights held(settings_.as_factors ? with_factors(narrow, stored_) : narrow,
                             stored_);
    const ops::MlpWeight gate_and_up{held.linear("gate"), held.linear("up"), weights.mlp.down, {}};
    MessageWriter arguments;
    arguments.put(settings_.fit_to);
    put_mlp(gate_and_up, weights.mlp, arguments);
    NMM_TRY(pass.run_stage(
        {.kind = StageKind::kNeurons, .layer = pass.layer(), .arguments = arguments.take()}));
    const int64_t count = kept.mlp.down_t.columns();
    DoubleMatrix gram = pass.sum(kNeuronGram).first_block(count);
    mirror_lower_triangle(gram);
    const DoubleMatrix cross = pass.sum(kTargetCross).first_columns(count);
    if (!gram.all_finite() || !cross.all_finite()) {
      return fail("{}: layer {} makes NaN or infinity of the calibration text",
                  inputs_.checkpoint.folder().string(), pass.layer());
    }
    // With the dense model's inputs as they were, W₀ is the optimum already.
    DoubleMatrix down_t = kept.mlp.down_t;
    if (error_aware() || shape.input > 0 || shape.gate > 0 || shape.up > 0) {
      NMM_ASSIGN(down_t, fit_down(kept.mlp.down_t, gram, cross));
    }
    return narrow_down(std::move(down_t), gram, metric, shape, stored_, narrow);
  }

  // The narrow stream passes its MLP and is what the next layer of the compressed model reads.
  Status go_on(LayerwisePass& pass, const model::LayerWeights& weights, const NarrowMlp& mlp) {
    const NarrowWeights held(mlp, stored_);
    MessageWriter arguments;
    put_mlp(held.mlp(), weights.mlp, arguments);
    return pass.run_stage({.kind = StageKind::kPassMlp,
                           .layer = pass.layer(),
                           .gathers = false,
                           .arguments = arguments.take()});
  }

  const CompressionInputs& inputs_;
  const io::ModelConfig& config_;
  const ShapePass& settings_;
  const fs::path& work_;
  StoredFormat stored_ = DType::kF32;
};

}  // namespace

VisitResult make_neurons_visit(const VisitContext& context, const Stage& stage) {
  NMM_ASSIGN(const auto weights,
             model::layer_weights(context.checkpoint, context.config, stage.layer));
  return VisitResult(
      std::make_unique<NeuronsVisit>(context, weights, MessageReader(stage.arguments)));
}

Status run_shape_pass(const CompressionInputs& inputs, const ShapePass& settings,
                      const fs::path& work) {
  return ShapePassRun(inputs, settings, work).run();
}

}  // namespace neuronmm::compress
