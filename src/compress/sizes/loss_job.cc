#include "compress/sizes/loss_job.h"

#include "compress/statistics/mlp_message.h"
#include "model/transformer.h"

namespace neuronmm::compress {

LayerJob losses_job(int64_t layer, const MlpStatistics& statistics, const MlpMetric& metric) {
  MessageWriter out;
  put_statistics(statistics, out);
  put_metric(metric, out);
  return {JobKind::kLosses, layer, out.take()};
}

PredictedLosses read_losses_result(MessageReader& in) {
  PredictedLosses losses;
  for (const auto curve : kPredictedCurves) losses.*curve = in.values<double>();
  losses.order = in.values<int32_t>();
  return losses;
}

Result<Bytes> run_losses_job(const JobContext& context, const LayerJob& job) {
  MessageReader in(job.arguments);
  NMM_ASSIGN(const auto weights,
             model::layer_weights(context.checkpoint, context.config, job.layer));
  NMM_ASSIGN(const DenseMlp mlp, DenseMlp::read(weights.mlp));
  const MlpStatistics statistics = read_statistics(in);
  const MlpMetric metric = read_metric(in);
  NMM_ASSIGN(const PredictedLosses losses, predict_losses(mlp, statistics, metric));
  MessageWriter out;
  for (const auto curve : kPredictedCurves) out.put(losses.*curve);
  out.put(losses.order);
  return out.take();
}

}  // namespace neuronmm::compress
