#pragma once
// Packs predict_losses() for one layer as a job that any process can run (layer_job.h).
// predicted_curves.h sends the jobs; helper_process.h runs them.

#include "compress/sizes/predicted_loss.h"
#include "compress/statistics/layer_job.h"

namespace neuronmm::compress {

// Packs the job.
LayerJob losses_job(int64_t layer, const MlpStatistics& statistics, const MlpMetric& metric);
// Runs the job and returns its result as a message.
Result<Bytes> run_losses_job(const JobContext& context, const LayerJob& job);
// Unpacks the result.
PredictedLosses read_losses_result(MessageReader& in);

}  // namespace neuronmm::compress
