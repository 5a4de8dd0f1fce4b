#include "compress/factorize_model.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "base/threads.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

// A layer at work needs about six fp64 copies of one weight (0.5 GB for Llama-3.2-1B, 2 GB for
// Llama-3.1-8B): machines with more than eight cores have that, but not necessarily 64 times that.
constexpr int64_t kMaxLayersAtOnce = 8;

// Threads take the next layer when they are done with one. The first error stops them all.
class ModelFactorization {
 public:
  ModelFactorization(const CompressionInputs& inputs, const GramSource& grams,
                     const StagedWork& work, const OnMatrix& on_matrix)
      : checkpoint_(inputs.checkpoint),
        config_(inputs.config),
        plan_(inputs.plan),
        grams_(grams),
        work_(work),
        weights_(inputs.weights),
        progress_(inputs.progress),
        on_matrix_(on_matrix) {}

  Result<std::vector<MatrixReport>> run() {
    total_ = std::count_if(plan_.matrices.begin(), plan_.matrices.end(),
                           [](const MatrixPlan& matrix) { return matrix.rank > 0; });
    progress_.start("factorizing", total_);
    const int64_t count =
        std::min({int64_t{num_threads()}, config_.num_hidden_layers, kMaxLayersAtOnce});
    run_on_threads(count, [this](int64_t) { work(); });
    progress_.finish();
    if (error_) return *std::move(error_);
    // Finished in any order, reported in the plan's.
    std::sort(reports_.begin(), reports_.end(), [](const MatrixReport& a, const MatrixReport& b) {
      return std::pair(a.layer, a.matrix) < std::pair(b.layer, b.matrix);
    });
    return std::move(reports_);
  }

 private:
  // Layers run side by side, each in one thread: BLAS must not start threads of its own.
  void work() {
    for (int64_t layer; (layer = next_layer_.fetch_add(1)) < config_.num_hidden_layers;) {
      const Status status = factorize_layer(layer);
      if (status.ok()) continue;
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = status.error();
      stopping_ = true;
    }
  }

  // What an interrupted run has left is reported and not computed again.
  Status factorize_layer(int64_t layer) {
    NMM_ASSIGN(const auto weights, model::layer_weights(checkpoint_, config_, layer));
    std::vector<MatrixPlan> to_do;
    for (const MlpMatrix matrix : kMlpMatrices) {
      const MatrixPlan& plan = plan_.of(layer, matrix);
      if (plan.rank == 0) continue;
      const DType dtype =
          staged_dtype(stored_format(weights_, weight_of(weights.mlp, matrix).w_t.dtype));
      if (const auto finished = work_.finished(plan, dtype)) {
        report(*finished);
      } else {
        to_do.push_back(plan);
      }
    }
    return grams_ ? factorize_by_gram(weights.mlp, to_do) : factorize_plainly(weights.mlp, to_do);
  }

  Status factorize_plainly(const ops::MlpWeight& mlp, const std::vector<MatrixPlan>& to_do) {
    for (const MatrixPlan& plan : to_do) {
      NMM_TRY(factorize(mlp, plan, [&](const DoubleMatrix& w_t, const StoredFormat& stored) {
        return factorize_plain(w_t, plan.rank, stored);
      }));
    }
    return {};
  }

  Status factorize_by_gram(const ops::MlpWeight& mlp, const std::vector<MatrixPlan>& to_do) {
    if (to_do.empty()) return {};
    if (stopping()) return stop();
    NMM_ASSIGN(LayerGrams grams, grams_(to_do[0].layer));
    // Gate and up read the same input: they share its whitening root. Down is whitened by its
    // output.
    DoubleMatrix root;  // shared by gate and up
    if (to_do[0].matrix != MlpMatrix::kDown) {
      NMM_ASSIGN(root, whitening_root(std::move(grams.in)));
    }
    for (const MatrixPlan& plan : to_do) {
      NMM_TRY(factorize(mlp, plan, [&](const DoubleMatrix& w_t, const StoredFormat& stored) {
        return plan.matrix == MlpMatrix::kDown
                   ? factorize_by_output(w_t, std::move(grams.out), plan.rank, stored)
                   : factorize_whitened(w_t, root, plan.rank, stored);
      }));
    }
    return {};
  }

  Status factorize(const ops::MlpWeight& mlp, const MatrixPlan& plan,
                   const Factorization& factorization) {
    // Between matrices, because an SVD cannot be interrupted.
    if (stopping()) return stop();
    NMM_ASSIGN(const MatrixReport matrix, factorize_matrix(mlp, plan, factorization, weights_,
                                                           work_, checkpoint_.folder().string()));
    report(matrix);
    return {};
  }

  void report(const MatrixReport& matrix) {
    const std::lock_guard lock(mutex_);
    reports_.push_back(matrix);
    progress_.update(static_cast<int64_t>(reports_.size()),
                     fmt::format("layer {} {}: rank {}, energy lost {:.3g}", matrix.layer,
                                 matrix_name(matrix.matrix), matrix.rank, matrix.energy_lost));
    if (on_matrix_) on_matrix_(matrix);
  }

  bool stopping() const { return stopping_ || interrupted(); }

  // Of the errors only the first is returned, which is the reason that another thread stops too.
  Error stop() {
    const std::lock_guard lock(mutex_);
    return interrupted_error(
        fmt::format("{} of {} matrices are kept in {}; run the same command again to go on",
                    reports_.size(), total_, work_.path().parent_path().string()));
  }

  const io::Checkpoint& checkpoint_;
  const io::ModelConfig& config_;
  const Plan& plan_;
  const GramSource& grams_;
  const StagedWork& work_;
  const WeightFormats& weights_;
  Progress& progress_;
  const OnMatrix& on_matrix_;
  int64_t total_ = 0;
  std::atomic<int64_t> next_layer_{0};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;  // of what follows, and of progress_ and on_matrix_
  std::vector<MatrixReport> reports_;
  std::optional<Error> error_;
};

}  // namespace

Result<std::vector<MatrixReport>> factorize_model(const CompressionInputs& inputs,
                                                  const GramSource& grams, const StagedWork& work,
                                                  const OnMatrix& on_matrix) {
  return ModelFactorization(inputs, grams, work, on_matrix).run();
}

}  // namespace neuronmm::compress
