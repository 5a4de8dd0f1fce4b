#pragma once
// predict_losses() of one layer as a job for any process.

#include "compress/layer_job.h"
#include "compress/predicted_loss.h"

namespace neuronmm::compress {

LayerJob losses_job(int64_t layer, const MlpStatistics& statistics, const MlpMetric& metric);
Result<Bytes> run_losses_job(const JobContext& context, const LayerJob& job);
PredictedLosses read_losses_result(MessageReader& in);

}  // namespace neuronmm::compress
