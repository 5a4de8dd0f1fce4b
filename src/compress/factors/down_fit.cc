#include "compress/factors/down_fit.h"

#include <system_error>
#include <utility>

#include "base/task_labels.h"
#include "compress/factors/narrow_weights.h"
#include "compress/statistics/layerwise_pass.h"
#include "compress/statistics/neurons_visit.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

// The name of the pass's state file.
constexpr const char* kDownFit = "shapes";

// λ of the fit of down (ridge_of_median() of ĥ's Gram matrix). Assumed.
constexpr double kDownRidge = 1e-3;

// Returns W₀ + (C - W₀·G)(G + λ I)⁻¹ for C = Σ t·ĥᵀ and G = Σ ĥ·ĥᵀ, where W₀ is `start`.
Result<DoubleMatrix> fit_down(const DoubleMatrix& start, const DoubleMatrix& gram,
                              const DoubleMatrix& cross) {
  DoubleMatrix ridged = gram;
  add_to_diagonal(ridge_of_median(gram, kDownRidge), ridged);
  const DoubleMatrix missing = difference(cross, multiply(start, gram));
  NMM_ASSIGN(const DoubleMatrix change_t, solve_positive(std::move(ridged), transposed(missing)));
  DoubleMatrix down_t = transposed(change_t);
  add(start, down_t);
  return down_t;
}

class DownFitRun {
 public:
  DownFitRun(const CompressionInputs& inputs, const DownFit& settings, const fs::path& work)
      : inputs_(inputs), config_(inputs.config), settings_(settings), work_(work) {}

  Status run() {
    if (is_finished()) return {};
    NMM_ASSIGN(LayerwisePass pass, open());
    while (!pass.done()) {
      const Status done = run_layer(pass);
      if (!done.ok()) return done;
      NMM_TRY(pass.next_layer());
    }
    return {};
  }

 private:
  bool are_saved(int64_t layers) const {
    for (int64_t layer = 0; layer < layers; ++layer) {
      if (!settings_.is_saved(layer)) return false;
    }
    return true;
  }

  // Returns whether an earlier run has ended the pass, which leaves all layers and no state.
  bool is_finished() const {
    std::error_code ignored;
    return !fs::exists(LayerwisePass::state_path(work_, kDownFit), ignored) &&
           are_saved(config_.num_hidden_layers);
  }

  // Opens the pass. A saved state is used only if the files of all layers before it are still
  // there; otherwise it is deleted and the pass begins again.
  Result<LayerwisePass> open() {
    const int64_t hidden = config_.hidden_size, inner = config_.intermediate_size;
    const LayerwisePass::Settings settings = {
        .name = kDownFit, .label = task::kFitting, .sums = {{inner, inner}, {hidden, inner}}};
    NMM_ASSIGN(auto pass, LayerwisePass::open(inputs_, work_, settings));
    if (are_saved(pass.layer())) return pass;
    std::error_code ignored;
    fs::remove(LayerwisePass::state_path(work_, kDownFit), ignored);
    return LayerwisePass::open(inputs_, work_, settings);
  }

  Status run_layer(LayerwisePass& pass) {
    const int64_t layer = pass.layer();
    NMM_ASSIGN(const auto weights, model::layer_weights(inputs_.checkpoint, config_, layer));
    NMM_ASSIGN(MlpData data, settings_.read(layer));
    NMM_ASSIGN(const auto order, settings_.order(layer));
    const io::MlpShape& shape = settings_.shapes[static_cast<size_t>(layer)];
    NMM_ASSIGN(KeptNeurons kept,
               keep_neurons(std::move(data.mlp), std::move(data.statistics.neurons), data.metric,
                            order, shape));
    stored_ = stored_format(settings_.weights, weights.mlp.gate.w_t.dtype);
    NarrowMlp narrow;
    NMM_TRY(narrow_inputs(kept, data.statistics.in, shape, stored_, narrow));
    NMM_TRY(fit_outputs(pass, weights, kept, data.metric, shape, narrow));
    return settings_.save(layer, narrow);
  }

  // Adds down to `narrow`, which has gate and up.
  Status fit_outputs(LayerwisePass& pass, const model::LayerWeights& weights,
                     const KeptNeurons& kept, const MlpMetric& metric, const io::MlpShape& shape,
                     NarrowMlp& narrow) {
    const NarrowWeights held(settings_.pivots_as_factors ? with_factors(narrow, stored_) : narrow,
                             stored_, weights.mlp.activation);
    const ops::MlpWeight gate_and_up{
        held.linear("gate"), held.linear("up"), weights.mlp.down, {}, weights.mlp.activation};
    NMM_TRY(pass.visit(neurons_visit(pass.layer(), gate_and_up, weights.mlp)));
    const int64_t count = kept.mlp.down_t.columns();
    DoubleMatrix gram = pass.sum(kNeuronGram).first_block(count);
    mirror_lower_triangle(gram);
    const DoubleMatrix cross = pass.sum(kTargetCross).first_columns(count);
    if (!gram.all_finite() || !cross.all_finite()) {
      return fail("{}: layer {} makes NaN or infinity of the calibration text",
                  inputs_.checkpoint.folder().string(), pass.layer());
    }
    // If gate and up read all of their input, W₀ is the optimum already.
    DoubleMatrix down_t = kept.mlp.down_t;
    if (shape.input > 0 || shape.gate > 0 || shape.up > 0) {
      NMM_ASSIGN(down_t, fit_down(kept.mlp.down_t, gram, cross));
    }
    return narrow_down(std::move(down_t), gram, metric, shape, stored_, narrow);
  }

  const CompressionInputs& inputs_;
  const io::ModelConfig& config_;
  const DownFit& settings_;
  const fs::path& work_;
  StoredFormat stored_ = DType::kF32;
};

}  // namespace

Status fit_downs(const CompressionInputs& inputs, const DownFit& settings, const fs::path& work) {
  return DownFitRun(inputs, settings, work).run();
}

}  // namespace neuronmm::compress
