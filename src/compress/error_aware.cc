#include "compress/error_aware.h"

#include <algorithm>
#include <system_error>

#include "base/threads.h"
#include "compress/layerwise_pass.h"
#include "compress/mlp_message.h"
#include "compress/refit.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

enum PassStage { kInputs, kOutputs, kAdvance, kStages };
const LayerwisePass::Settings kErrorAwarePass = {
    .name = "error-aware", .label = "compressing", .stages = kStages, .streams = 2};

// What a stage has gathered, ready for its matrices.
struct Refit {
  DoubleMatrix map;   // A or B
  DoubleMatrix root;  // S with S·Sᵀ = Σ x̂ x̂ᵀ or Σ ŷ ŷᵀ
};

// Both results need the eigenvectors of the same Gram matrix, which is decomposed once.
Result<Refit> refit(const DoubleMatrix& gram, const DoubleMatrix& cross) {
  NMM_ASSIGN(SymmetricEigen eigen, symmetric_eigen(gram));
  DoubleMatrix map = refit_map(gram, eigen, cross);
  return Refit{std::move(map), whitening_root(std::move(eigen))};
}

// Gate and up: the map belongs to the input and is multiplied into the weight. Down: it belongs to
// the output.
Result<Factors> factorize_refitted(const Refit& refit, const DoubleMatrix& w_t,
                                   const MatrixPlan& plan, const StoredFormat& stored) {
  if (plan.matrix == MlpMatrix::kDown) {
    return factorize_mapped_output(w_t, refit.map, refit.root, plan.rank, stored);
  }
  const DoubleMatrix refitted = multiply(w_t, Transpose::kNo, refit.map, Transpose::kNo);
  return factorize_whitened(refitted, refit.root, plan.rank, stored);
}

class ErrorAware {
 public:
  ErrorAware(const CompressionInputs& inputs, const StagedWork& work, const OnMatrix& on_matrix)
      : inputs_(inputs),
        checkpoint_(inputs.checkpoint),
        config_(inputs.config),
        plan_(inputs.plan),
        work_(work),
        weights_(inputs.weights),
        on_matrix_(on_matrix) {}

  // When everything is finished, only the reports are read.
  Result<std::vector<MatrixReport>> run() {
    std::error_code ignored;
    if (fs::exists(state_path(), ignored) || !all_finished()) NMM_TRY(run_layers());
    std::vector<MatrixReport> reports;
    for (const MatrixPlan& matrix : plan_.matrices) {
      if (matrix.rank == 0) continue;
      const auto report = finished(matrix);
      if (!report) return fail("{}: a finished matrix cannot be read", work_.path().string());
      reports.push_back(*report);
    }
    return reports;
  }

 private:
  Status run_layers() {
    NMM_ASSIGN(LayerwisePass pass, open_pass());
    while (!pass.done()) {
      NMM_ASSIGN(const auto weights, model::layer_weights(checkpoint_, config_, pass.layer()));
      if (pass.stage() == kInputs) NMM_TRY(refit_inputs(pass, weights));
      if (pass.stage() == kOutputs) NMM_TRY(refit_outputs(pass, weights));
      // Nothing reads the output of the last layer's compressed MLP.
      if (pass.layer() + 1 < config_.num_hidden_layers) NMM_TRY(advance(pass, weights));
      NMM_TRY(pass.next_layer());
    }
    return {};
  }

  // The saved state counts only if all factors that led to it are still there; otherwise the pass
  // begins again. "Behind" are the matrices of earlier layers and of earlier stages of this one.
  Result<LayerwisePass> open_pass() {
    NMM_ASSIGN(auto pass, LayerwisePass::open(pass_inputs(inputs_), work_.path(), kErrorAwarePass));
    const auto stands = [&](const MatrixPlan& matrix) {
      const PassStage stage = matrix.matrix == MlpMatrix::kDown ? kOutputs : kInputs;
      const bool behind =
          std::pair(matrix.layer, int64_t{stage}) < std::pair(pass.layer(), pass.stage());
      return !behind || matrix.rank == 0 || finished(matrix);
    };
    if (std::all_of(plan_.matrices.begin(), plan_.matrices.end(), stands)) return pass;
    std::error_code ignored;
    fs::remove(state_path(), ignored);
    return LayerwisePass::open(pass_inputs(inputs_), work_.path(), kErrorAwarePass);
  }

  // First stage of a layer. The dense stream passes the whole layer, the compressed one its
  // attention only, because its MLP does not exist yet. What gate and up read in the two models is
  // gathered as sums: Σ x̂ x̂ᵀ of the compressed input, and Σ x x̂ᵀ of the dense input with it.
  Status refit_inputs(LayerwisePass& pass, const model::LayerWeights& weights) {
    NMM_TRY(pass.run_stage({.kind = StageKind::kMlpInputs, .layer = pass.layer()}));
    NMM_TRY(factorize(pass, weights.mlp, {MlpMatrix::kGate, MlpMatrix::kUp}));
    pass.next_stage();
    return {};
  }

  // Second stage. The compressed stream stands before the MLP, whose gate and up have their factors
  // now. Gathered: Σ ŷ ŷᵀ of what the dense down makes of them, and Σ t ŷᵀ of the targets, which
  // are what is missing to the dense model's hidden states after this layer.
  Status refit_outputs(LayerwisePass& pass, const model::LayerWeights& weights) {
    if (plan_.of(pass.layer(), MlpMatrix::kDown).rank > 0) {
      FactoredMlp factored(weights.mlp, weights_);
      NMM_TRY(use_factors(pass.layer(), {MlpMatrix::kGate, MlpMatrix::kUp}, factored));
      NMM_TRY(pass.run_stage({.kind = StageKind::kMlpOutputs,
                              .layer = pass.layer(),
                              .arguments = message_of(factored, weights)}));
      NMM_TRY(factorize(pass, weights.mlp, {MlpMatrix::kDown}));
    }
    pass.next_stage();
    return {};
  }

  // Third stage: the compressed stream passes its MLP with all three factors and is what the next
  // layer of the compressed model reads.
  Status advance(LayerwisePass& pass, const model::LayerWeights& weights) {
    FactoredMlp factored(weights.mlp, weights_);
    NMM_TRY(
        use_factors(pass.layer(), {MlpMatrix::kGate, MlpMatrix::kUp, MlpMatrix::kDown}, factored));
    return pass.run_stage({.kind = StageKind::kPassMlp,
                           .layer = pass.layer(),
                           .gathers = false,
                           .arguments = message_of(factored, weights)});
  }

  static Bytes message_of(const FactoredMlp& mlp, const model::LayerWeights& weights) {
    MessageWriter message;
    put_mlp(mlp.weight(), weights.mlp, message);
    return message.take();
  }

  // The sums become a map (refit.h) that the matrices of this stage share; each then is a
  // factorization of its own.
  Status factorize(LayerwisePass& pass, const ops::MlpWeight& mlp,
                   std::initializer_list<MlpMatrix> matrices) {
    std::vector<MatrixPlan> to_do;
    for (const MlpMatrix matrix : matrices) {
      const MatrixPlan& plan = plan_.of(pass.layer(), matrix);
      if (plan.rank > 0) to_do.push_back(plan);
    }
    if (to_do.empty()) return {};
    const DoubleMatrix gram = symmetric(pass.sum(0));
    if (!gram.all_finite() || !pass.sum(1).all_finite()) {
      return fail("{}: layer {} makes NaN or infinity of the calibration text",
                  checkpoint_.folder().string(), pass.layer());
    }
    std::optional<Result<Refit>> fitted;
    fitted.emplace(refit(gram, pass.sum(1)));
    if (!fitted->ok()) return fitted->error();
    std::vector<std::optional<Result<MatrixReport>>> reports(to_do.size());
    run_on_threads(std::ssize(to_do), [&](int64_t i) {
      const auto method = [&](const DoubleMatrix& w_t, const StoredFormat& stored) {
        return factorize_refitted(**fitted, w_t, to_do[i], stored);
      };
      reports[i].emplace(
          factorize_matrix(mlp, to_do[i], method, weights_, work_, checkpoint_.folder().string()));
    });
    for (const auto& report : reports) {
      if (!report->ok()) return report->error();
      if (on_matrix_) on_matrix_(**report);
    }
    return {};
  }

  Status use_factors(int64_t layer, std::initializer_list<MlpMatrix> matrices,
                     FactoredMlp& mlp) const {
    for (const MlpMatrix matrix : matrices) {
      if (plan_.of(layer, matrix).rank > 0) NMM_TRY(mlp.use_factors(work_, layer, matrix));
    }
    return {};
  }

  // What an interrupted run has left counts as finished if it fits the plan.
  std::optional<MatrixReport> finished(const MatrixPlan& matrix) const {
    const auto weight = model::layer_weights(checkpoint_, config_, matrix.layer);
    if (!weight.ok()) return std::nullopt;
    return work_.finished(matrix, staged_dtype(stored_format(
                                      weights_, weight_of(weight->mlp, matrix.matrix).w_t.dtype)));
  }
  bool all_finished() const {
    return std::all_of(plan_.matrices.begin(), plan_.matrices.end(), [&](const MatrixPlan& matrix) {
      return matrix.rank == 0 || finished(matrix);
    });
  }
  fs::path state_path() const {
    return LayerwisePass::state_path(work_.path(), kErrorAwarePass.name);
  }

  const CompressionInputs& inputs_;
  const io::Checkpoint& checkpoint_;
  const io::ModelConfig& config_;
  const Plan& plan_;
  const StagedWork& work_;
  const WeightFormats& weights_;
  const OnMatrix& on_matrix_;
};

}  // namespace

Result<std::vector<MatrixReport>> compress_error_aware(const CompressionInputs& inputs,
                                                       const StagedWork& work,
                                                       const OnMatrix& on_matrix) {
  return ErrorAware(inputs, work, on_matrix).run();
}

}  // namespace neuronmm::compress
