#include "compress/loss_job.h"

#include "compress/mlp_message.h"
#include "model/transformer.h"

namespace neuronmm::compress {

LayerJob losses_job(int64_t layer, const MlpStatistics& statistics, const MlpMetric& metric) {
  MessageWriter out;
  put_statistics(statistics, out);
  put_metric(metric, out);
  return {JobKind::kLosses, layer, out.take()};
}

PredictedLosses read_losses_result(MessageReader& in) {
  return {in.values<double>(), in.values<double>(), in.values<double>(),
          in.values<double>(), in.values<double>(), in.values<int32_t>()};
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
  for (const auto* curve :
       {&losses.gate, &losses.up, &losses.input, &losses.output, &losses.neurons}) {
    out.put(*curve);
  }
  out.put(losses.order);
  return out.take();
}

}  // namespace neuronmm::compress
