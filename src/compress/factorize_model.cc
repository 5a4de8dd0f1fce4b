#include "compress/factorize_model.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "base/task_labels.h"
#include "base/threads.h"
#include "compress/factors/factor_jobs.h"
#include "compress/factors/layer_factorization.h"
#include "compress/statistics/data_parallel.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

// The number of layers that are factorized at once, at most. A layer needs memory for about six
// fp64 copies of one weight, which is 2.8 GB for Llama-3.1-8B. Assumed: machines with more than
// eight cores have memory for eight layers, but not always for 64.
constexpr int64_t kMaxLayersAtOnce = 8;

// Factorizes the layers of a model. Each thread takes the next layer when it has finished one. The
// first error stops all threads.
class ModelFactorization {
 public:
  ModelFactorization(const CompressionInputs& inputs, const Plan& plan,
                     const WeightFormats& weights, const GramSource& grams,
                     const std::filesystem::path& work, const OnMatrix& on_matrix)
      : helpers_(inputs.helpers),
        checkpoint_(inputs.checkpoint),
        config_(inputs.config),
        plan_(plan),
        grams_(grams),
        work_(work),
        weights_(weights),
        progress_(inputs.progress),
        on_matrix_(on_matrix) {}

  Result<std::vector<MatrixReport>> run() {
    total_ = std::count_if(plan_.matrices.begin(), plan_.matrices.end(),
                           [](const MatrixPlan& matrix) { return matrix.rank > 0; });
    NMM_TRY(find_finished());
    const int64_t count =
        std::min({int64_t{num_threads()}, config_.num_hidden_layers, kMaxLayersAtOnce});
    if (helpers_ == nullptr) {
      run_on_threads(count, [this](int64_t) { work(); });
    } else if (const Status status = work_with_helpers(count); !status.ok()) {
      error_ = status.error();
    }
    progress_.finish();
    if (error_) return *std::move(error_);
    // Layers finish in any order; the reports are in the plan's order.
    std::sort(reports_.begin(), reports_.end(), [](const MatrixReport& a, const MatrixReport& b) {
      return std::pair(a.layer, a.matrix) < std::pair(b.layer, b.matrix);
    });
    return std::move(reports_);
  }

 private:
  // Factorizes layers until none is left. Each layer uses one thread, so BLAS must not start
  // threads of its own.
  void work() {
    for (int64_t layer; (layer = next_layer_.fetch_add(1)) < config_.num_hidden_layers;) {
      const Status status = factorize_layer(layer);
      if (status.ok()) continue;
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = status.error();
      stopping_ = true;
    }
  }

  // Deals layers out to all processes in rounds of `at_once` layers per process. The results of a
  // round are saved before the next one begins.
  Status work_with_helpers(int64_t at_once) {
    std::vector<LayerJob> jobs;
    for (int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
      NMM_ASSIGN(const auto to_do, unfinished(layer));
      if (!to_do.empty()) {
        NMM_ASSIGN(auto grams, layer_grams(layer));
        jobs.push_back(factors_job(layer, to_do, grams));
      }
      const bool full = std::ssize(jobs) == at_once * helpers_->processes();
      if (!full && (jobs.empty() || layer + 1 < config_.num_hidden_layers)) continue;
      if (interrupted()) return stop();
      NMM_TRY(helpers_->run_jobs({checkpoint_, config_}, run_factors_job, jobs, at_once,
                                 [&](int64_t done, MessageReader& in) { return take(done, in); }));
      jobs.clear();
    }
    return {};
  }

  // Saves the factors that a process has computed for one layer.
  Status take(int64_t layer, MessageReader& in) {
    NMM_ASSIGN(const auto matrices, unfinished(layer));
    const std::vector<Factors> factors = read_factors_result(in);
    NMM_CHECK(factors.size() == matrices.size());
    for (size_t i = 0; i < matrices.size(); ++i) {
      NMM_ASSIGN(const MatrixReport done,
                 save_factors(work_, plan_.matrix_plan(layer, matrices[i].matrix), factors[i],
                              matrices[i].stored));
      report(done);
    }
    return {};
  }

  // Starts the progress with the matrices that an interrupted run has finished, and reports them.
  Status find_finished() {
    std::vector<MatrixReport> finished;
    for (int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
      NMM_ASSIGN(const auto to_do, unfinished(layer, &finished));
    }
    const int64_t found = std::ssize(finished);
    if (found > 0 && found < total_) {
      progress_.print(std::string(task::kFactorizing) + ": " +
                      found_text(found, total_, "matrix", "matrices"));
    }
    progress_.start(task::kFactorizing, total_, found);
    for (const MatrixReport& matrix : finished) report(matrix);
    return {};
  }

  // Returns the matrices of a layer whose factors are not in the work folder. The others are
  // appended to `finished_ones`, and are not computed again.
  Result<std::vector<MatrixToFactorize>> unfinished(
      int64_t layer, std::vector<MatrixReport>* finished_ones = nullptr) {
    NMM_ASSIGN(const auto weights, model::layer_weights(checkpoint_, config_, layer));
    std::vector<MatrixToFactorize> to_do;
    for (const MlpMatrix matrix : kMlpMatrices) {
      const MatrixPlan& plan = plan_.matrix_plan(layer, matrix);
      if (plan.rank == 0) continue;
      const StoredFormat stored = stored_format(weights_, weight_of(weights.mlp, matrix).w_t.dtype);
      const auto finished = finished_factors(work_, plan, staged_dtype(stored));
      if (!finished) {
        to_do.push_back({matrix, plan.rank, stored});
      } else if (finished_ones != nullptr) {
        finished_ones->push_back(*finished);
      }
    }
    return to_do;
  }

  // Returns the Gram matrices of a layer, or nothing for plain SVD.
  Result<std::optional<LayerGrams>> layer_grams(int64_t layer) const {
    std::optional<LayerGrams> grams;
    if (grams_) {
      NMM_ASSIGN(grams, grams_(layer));
    }
    return grams;
  }

  Status factorize_layer(int64_t layer) {
    NMM_ASSIGN(const auto weights, model::layer_weights(checkpoint_, config_, layer));
    NMM_ASSIGN(const auto to_do, unfinished(layer));
    if (to_do.empty()) return {};
    if (stopping()) return stop();
    NMM_ASSIGN(auto grams, layer_grams(layer));
    LayerFactorization factorization(std::move(grams));
    for (const MatrixToFactorize& matrix : to_do) {
      // An interrupt is noticed only between matrices, because an SVD cannot be interrupted.
      if (stopping()) return stop();
      NMM_ASSIGN(const Factors factors,
                 factorization.factors(weights.mlp, layer, matrix.matrix, matrix.rank,
                                       matrix.stored, checkpoint_.folder().string()));
      NMM_ASSIGN(
          const MatrixReport done,
          save_factors(work_, plan_.matrix_plan(layer, matrix.matrix), factors, matrix.stored));
      report(done);
    }
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

  // Returns the error of an interrupt. run() returns only the first error, which is the reason why
  // the other threads stop.
  Error stop() {
    const std::lock_guard lock(mutex_);
    return interrupted_error(
        fmt::format("{} of {} matrices are factorized", reports_.size(), total_));
  }

  DataParallel* helpers_;
  const io::Checkpoint& checkpoint_;
  const io::ModelConfig& config_;
  const Plan& plan_;
  const GramSource& grams_;
  const std::filesystem::path& work_;
  const WeightFormats& weights_;
  Progress& progress_;
  const OnMatrix& on_matrix_;
  int64_t total_ = 0;
  std::atomic<int64_t> next_layer_{0};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;  // guards all members below, progress_ and on_matrix_
  std::vector<MatrixReport> reports_;
  std::optional<Error> error_;
};

}  // namespace

Result<std::vector<MatrixReport>> factorize_model(const CompressionInputs& inputs, const Plan& plan,
                                                  const WeightFormats& weights,
                                                  const GramSource& grams,
                                                  const std::filesystem::path& work,
                                                  const OnMatrix& on_matrix) {
  return ModelFactorization(inputs, plan, weights, grams, work, on_matrix).run();
}

}  // namespace neuronmm::compress
