#include "compress/sizes/sensitivity.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "base/interrupt.h"
#include "base/task_labels.h"
#include "base/threads.h"
#include "compress/factors/factorize.h"
#include "compress/sizes/dense_reference.h"
#include "compress/statistics/normed_mlp.h"
#include "model/rope.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

// The number of tokens that are used of one sequence, at most. It makes the probe come from several
// parts of the text. Assumed.
constexpr int64_t kProbeSequenceTokens = 128;

// A weight made of the first `rank` columns of v_t and rows of u_t of existing factors, in fp32. A
// factorization of rank r contains those of smaller ranks, so both measured ranks use the same one.
class TruncatedWeight {
 public:
  TruncatedWeight(const Factors& factors, int64_t rank)
      : u_t_(to_checkpoint(factors.u_t.first_rows(rank), DType::kF32)),
        v_t_(to_checkpoint(factors.v_t.first_columns(rank), DType::kF32)) {
    weight_.u_t = TensorView{DType::kF32, {rank, factors.u_t.columns()}, u_t_.data()};
    weight_.v_t = TensorView{DType::kF32, {factors.v_t.rows(), rank}, v_t_.data()};
  }
  const ops::LinearWeight& weight() const { return weight_; }

 private:
  std::vector<std::byte> u_t_, v_t_;
  ops::LinearWeight weight_;
};

// Returns the MLP with this weight in place of one matrix. The bias of the matrix stays.
ops::MlpWeight with_matrix(ops::MlpWeight mlp, MlpMatrix which, const ops::LinearWeight& weight) {
  ops::LinearWeight& replaced = which == MlpMatrix::kGate ? mlp.gate
                                : which == MlpMatrix::kUp ? mlp.up
                                                          : mlp.down;
  const TensorView bias = replaced.bias;
  replaced = weight;
  replaced.bias = bias;
  return mlp;
}

// Runs all variants of the model together, layer by layer. At the layer of a matrix the dense
// hidden states branch into two variants, with that matrix truncated to the uniform rank and to the
// floor. After that every variant runs through dense layers.
class SensitivityPass {
 public:
  SensitivityPass(const CompressionInputs& inputs, const Plan& plan, int64_t block,
                  const GramSource& grams)
      : inputs_(inputs),
        checkpoint_(inputs.checkpoint),
        config_(inputs.config),
        plan_(plan),
        block_(block),
        grams_(grams),
        backend_(inputs.backend),
        progress_(inputs.progress) {}

  Result<std::vector<MatrixSensitivity>> run() {
    NMM_ASSIGN(EmbeddedSequences probes, embed_sequences(inputs_, probe_sequences(*inputs_.text)));
    caches_ = std::move(probes.caches);
    batch_ = std::move(probes.batch);
    dense_ = std::move(probes.hidden);
    progress_.start(task::kMeasuringSensitivity, count_steps());
    for (int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) NMM_TRY(pass_layer(layer));
    NMM_TRY(measure_branches());
    progress_.finish();
    return std::move(sensitivities_);
  }

 private:
  // The hidden states of a model with one matrix truncated, at the current layer.
  struct Branch {
    size_t matrix = 0;  // index in sensitivities_
    bool at_floor = false;
    Matrix hidden;
  };

  // Returns the number of progress steps. Every branch counts once when it starts, once at every
  // later layer, and once at the LM head.
  int64_t count_steps() const {
    int64_t steps = 0;
    for (const MatrixPlan& matrix : plan_.matrices) {
      if (matrix.rank > 0) steps += 2 * (config_.num_hidden_layers - matrix.layer + 1);
    }
    return steps;
  }

  Status step(int64_t layer) {
    progress_.update(++steps_, fmt::format("layer {}", layer));
    if (!interrupted()) return {};
    return interrupted_error("the sensitivity is not measured and begins again");
  }

  // Takes the variants of earlier layers through this layer, which is dense for them. Then takes
  // the dense states up to its MLP, where the layer's own variants branch off.
  Status pass_layer(int64_t index) {
    NMM_ASSIGN(const auto weights, model::layer_weights(checkpoint_, config_, index));
    const model::DecoderLayer layer(config_, 0, weights, backend_);
    for (Branch& branch : branches_) {
      layer.forward(branch.hidden.view(), rotary_, batch_);
      NMM_TRY(step(index));
    }
    layer.attention_half(dense_.view(), rotary_, batch_);
    NMM_TRY(branch_off(index, weights));
    NormedMlp(config_, weights, weights.mlp, backend_).add_to(dense_.view());
    checkpoint_.release_pages();
    return {};
  }

  // Adds two variants per matrix of this layer. dense_ holds the states before the layer's MLP, so
  // a variant costs an MLP here and not a whole layer.
  Status branch_off(int64_t layer, const model::LayerWeights& weights) {
    std::vector<MatrixPlan> matrices;
    for (const MlpMatrix matrix : kMlpMatrices) {
      if (plan_.matrix_plan(layer, matrix).rank > 0)
        matrices.push_back(plan_.matrix_plan(layer, matrix));
    }
    NMM_ASSIGN(const auto factors, factorize(layer, weights.mlp, matrices));
    for (size_t i = 0; i < matrices.size(); ++i) {
      for (const bool at_floor : {false, true}) {
        const int64_t rank = matrices[i].rank;
        const TruncatedWeight truncated(factors[i], at_floor ? floor_rank(rank, block_) : rank);
        const NormedMlp mlp(config_, weights,
                            with_matrix(weights.mlp, matrices[i].matrix, truncated.weight()),
                            backend_);
        branches_.push_back({sensitivities_.size(), at_floor, dense_});
        mlp.add_to(branches_.back().hidden.view());
        NMM_TRY(step(layer));
      }
      sensitivities_.push_back({0.0, 0.0, factors[i].singular_values});
    }
    return {};
  }

  // Returns the factors of a layer's matrices at their uniform ranks, by the method that the
  // compression will use: plain, or whitened by the Gram matrices. The first columns of v_t and
  // rows of u_t are the factors of that method at a smaller rank, so one factorization serves both
  // measured ranks.
  Result<std::vector<Factors>> factorize(int64_t layer, const ops::MlpWeight& mlp,
                                         const std::vector<MatrixPlan>& matrices) const {
    LayerGrams grams;
    if (grams_ && !matrices.empty()) {
      NMM_ASSIGN(grams, grams_(layer));
    }
    std::vector<std::optional<Result<Factors>>> results(matrices.size());
    run_on_threads(std::ssize(matrices), [&](int64_t i) {
      const DoubleMatrix w_t = to_double_matrix(weight_of(mlp, matrices[i].matrix).w_t);
      results[i].emplace(w_t.all_finite() ? factorize(matrices[i], w_t, grams)
                                          : fail("the weight holds NaN or infinity"));
    });
    std::vector<Factors> factors;
    for (size_t i = 0; i < matrices.size(); ++i) {
      if (!results[i]->ok()) {
        return fail("{}: layer {} {}: {}", checkpoint_.folder().string(), layer,
                    matrix_name(matrices[i].matrix), results[i]->error().message);
      }
      factors.push_back(std::move(*results[i]).value());
    }
    return factors;
  }

  Result<Factors> factorize(const MatrixPlan& plan, const DoubleMatrix& w_t,
                            const LayerGrams& grams) const {
    if (!grams_) return factorize_plain(w_t, plan.rank, DType::kF32);
    if (plan.matrix == MlpMatrix::kDown) {
      return factorize_by_output(w_t, grams.out, plan.rank, DType::kF32);
    }
    NMM_ASSIGN(const DoubleMatrix root, whitening_root(grams.in));
    return factorize_whitened(w_t, root, plan.rank, DType::kF32);
  }

  // Sets the mean divergence per token of each variant from the dense model, in nats.
  Status measure_branches() {
    NMM_ASSIGN(const auto head, model::LmHead::load(checkpoint_, config_, backend_));
    const Matrix dense = head.logits(dense_.view());
    for (Branch& branch : branches_) {
      const double lost = mean_divergence(dense.view(), head.logits(branch.hidden.view()).view());
      MatrixSensitivity& matrix = sensitivities_[branch.matrix];
      (branch.at_floor ? matrix.floor_divergence : matrix.uniform_divergence) = lost;
      if (!std::isfinite(lost)) {
        return fail("{}: the model makes NaN or infinity of the calibration text",
                    checkpoint_.folder().string());
      }
      NMM_TRY(step(config_.num_hidden_layers - 1));
    }
    return {};
  }

  const CompressionInputs& inputs_;
  const io::Checkpoint& checkpoint_;
  const io::ModelConfig& config_;
  const Plan& plan_;
  int64_t block_;
  const GramSource& grams_;
  const ops::Backend& backend_;
  Progress& progress_;
  const model::RotaryTables rotary_ = model::RotaryTables(config_);
  std::vector<std::unique_ptr<ops::KvCache>> caches_;
  std::vector<ops::SequenceRows> batch_;
  Matrix dense_;  // the hidden states of all probes, one after the other
  std::vector<Branch> branches_;
  std::vector<MatrixSensitivity> sensitivities_;
  int64_t steps_ = 0;
};

}  // namespace

// Chooses as many sequences as make kProbeTokens, evenly spaced over the calibration text.
std::vector<std::vector<text::TokenId>> probe_sequences(const CalibrationSequences& text) {
  const auto tokens_of = [](const std::vector<text::TokenId>& sequence) {
    return std::min(kProbeSequenceTokens, static_cast<int64_t>(sequence.size()));
  };
  const auto available = static_cast<int64_t>(text.sequences.size());
  int64_t tokens = 0;
  for (const auto& sequence : text.sequences) tokens += tokens_of(sequence);
  const int64_t count = std::min(available, (kProbeTokens * available + tokens - 1) / tokens);
  std::vector<std::vector<text::TokenId>> probes;
  for (int64_t i = 0; i < count; ++i) {
    const auto& sequence = text.sequences[static_cast<size_t>(i * available / count)];
    probes.emplace_back(sequence.begin(), sequence.begin() + tokens_of(sequence));
  }
  return probes;
}

Result<std::vector<MatrixSensitivity>> measure_sensitivity(const CompressionInputs& inputs,
                                                           const Plan& plan, int64_t block,
                                                           const GramSource& grams) {
  return SensitivityPass(inputs, plan, block, grams).run();
}

}  // namespace neuronmm::compress
