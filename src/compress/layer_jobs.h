#pragma once
// What is done to each layer on its own: pure functions of the dense model and of what the job
// brings along, so that any process that has the model can do it.

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "compress/factorize.h"
#include "compress/gram.h"
#include "compress/message.h"
#include "compress/narrow_mlp.h"
#include "compress/plan.h"
#include "io/checkpoint.h"
#include "io/model_config.h"

namespace neuronmm::compress {

enum class JobKind : int32_t { kLosses, kNarrow, kFactors };

struct LayerJob {
  JobKind kind = JobKind::kLosses;
  int64_t layer = 0;
  Bytes arguments;
};

struct JobContext {
  const io::Checkpoint& checkpoint;
  const io::ModelConfig& config;
};
Result<Bytes> run_job(const JobContext& context, const LayerJob& job);
// The same as a message: whether it went well, then the result or the error's text.
Bytes job_answer(const JobContext& context, const LayerJob& job);

// predict_losses().
LayerJob losses_job(int64_t layer, const MlpStatistics& statistics, const MlpMetric& metric);
PredictedLosses read_losses_result(MessageReader& in);

// narrow_mlp().
LayerJob narrow_job(int64_t layer, const MlpStatistics& statistics, const MlpMetric& metric,
                    const std::vector<int32_t>& order, const io::MlpShape& shape,
                    const StoredFormat& stored);
NarrowMlp read_narrow_result(MessageReader& in);

// The factors of some matrices of a layer, each at its rank. Without Gram matrices: plain SVD.
struct MatrixToFactorize {
  MlpMatrix matrix = MlpMatrix::kGate;
  int64_t rank = 0;
  StoredFormat stored;
};
LayerJob factors_job(int64_t layer, const std::vector<MatrixToFactorize>& matrices,
                     const std::optional<LayerGrams>& grams);
// One per matrix, in their order.
std::vector<Factors> read_factors_result(MessageReader& in);

}  // namespace neuronmm::compress
