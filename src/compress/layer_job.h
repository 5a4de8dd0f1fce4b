#pragma once
// What is done to one layer on its own: a pure function of the dense model and of what the job
// brings along, so that any process that has the model can do it.

#include <cstdint>
#include <functional>

#include "base/result.h"
#include "compress/message.h"
#include "io/checkpoint.h"
#include "io/model_config.h"

namespace neuronmm::compress {

enum class JobKind : int32_t {
  kLosses,   // predicts what every size of the layer costs (loss_job.h)
  kNarrow,   // narrows the MLP (factor_jobs.h)
  kFactors,  // factorizes single matrices (factor_jobs.h)
};

struct LayerJob {
  JobKind kind = JobKind::kLosses;
  int64_t layer = 0;
  Bytes arguments;
};

// What every process has.
struct JobContext {
  const io::Checkpoint& checkpoint;
  const io::ModelConfig& config;
};
using RunJob = std::function<Result<Bytes>(const JobContext& context, const LayerJob& job)>;

// Runs the job and returns a message: whether it went well, then the result or the error's text.
Bytes job_answer(const RunJob& run, const JobContext& context, const LayerJob& job);

}  // namespace neuronmm::compress
