#pragma once
// A job: work on one layer that needs only the dense model and the arguments that come with the
// job. Any process that has the model can run it and gets the same result (data_parallel.h).

#include <cstdint>
#include <functional>

#include "base/result.h"
#include "compress/statistics/message.h"
#include "io/checkpoint.h"
#include "io/model_config.h"

namespace neuronmm::compress {

enum class JobKind : int32_t {
  kLosses,   // predicts what every size of the layer costs (loss_job.h)
  kNarrow,   // narrows the MLP (factor_jobs.h)
  kFactors,  // factorizes single matrices (factor_jobs.h)
};

// A job for one layer. `arguments` is a message (message.h) that the function for `kind` reads.
struct LayerJob {
  JobKind kind = JobKind::kLosses;
  int64_t layer = 0;
  Bytes arguments;
};

// The model, which every process has.
struct JobContext {
  const io::Checkpoint& checkpoint;
  const io::ModelConfig& config;
};
// Runs a job and returns its result as a message.
using RunJob = std::function<Result<Bytes>(const JobContext& context, const LayerJob& job)>;

// Runs a job and returns a message for process 0. The message says whether the job succeeded,
// followed by the result or the text of the error.
Bytes job_answer(const RunJob& run, const JobContext& context, const LayerJob& job);

}  // namespace neuronmm::compress
