#include "compress/layer_jobs.h"

#include "compress/factorize_matrix.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

void put_statistics(const MlpStatistics& statistics, MessageWriter& out) {
  out.put(statistics.in);
  out.put(statistics.neurons);
  out.put(statistics.gate_slope);
  out.put(statistics.up_slope);
  out.put(statistics.residual);
}

// The elements of a braced list are evaluated in their order.
MlpStatistics read_statistics_of(MessageReader& in) {
  return {in.matrix(), in.matrix(), in.matrix(), in.matrix(), in.matrix()};
}

void put_metric(const MlpMetric& metric, MessageWriter& out) {
  out.put(metric.out);
  out.put(metric.gate);
  out.put(metric.up);
}

MlpMetric read_metric_of(MessageReader& in) {
  return {in.matrix(), in.values<double>(), in.values<double>()};
}

Result<Bytes> run_losses(const JobContext& context, int64_t layer, MessageReader& in) {
  NMM_ASSIGN(const auto weights, model::layer_weights(context.checkpoint, context.config, layer));
  NMM_ASSIGN(const DenseMlp mlp, DenseMlp::read(weights.mlp));
  const MlpStatistics statistics = read_statistics_of(in);
  const MlpMetric metric = read_metric_of(in);
  NMM_ASSIGN(const PredictedLosses losses, predict_losses(mlp, statistics, metric));
  MessageWriter out;
  for (const auto* curve :
       {&losses.gate, &losses.up, &losses.input, &losses.output, &losses.neurons}) {
    out.put(*curve);
  }
  out.put(losses.order);
  return out.take();
}

Result<Bytes> run_narrow(const JobContext& context, int64_t layer, MessageReader& in) {
  NMM_ASSIGN(const auto weights, model::layer_weights(context.checkpoint, context.config, layer));
  NMM_ASSIGN(DenseMlp mlp, DenseMlp::read(weights.mlp));
  MlpStatistics statistics = read_statistics_of(in);
  const MlpMetric metric = read_metric_of(in);
  const auto order = in.values<int32_t>();
  const auto shape = in.value<io::MlpShape>();
  const auto stored = in.value<StoredFormat>();
  NMM_ASSIGN(const NarrowMlp narrow,
             narrow_mlp(std::move(mlp), std::move(statistics), metric, order, shape, stored));
  MessageWriter out;
  out.put(narrow.largest_map);
  out.put(std::ssize(narrow.tensors));
  for (const MlpTensor& tensor : narrow.tensors) {
    out.put(tensor.name);
    out.put(tensor.values);
    out.put(tensor.numbers);
  }
  return out.take();
}

Result<Bytes> run_factors(const JobContext& context, int64_t layer, MessageReader& in) {
  NMM_ASSIGN(const auto weights, model::layer_weights(context.checkpoint, context.config, layer));
  const auto matrices = in.values<MatrixToFactorize>();
  std::optional<LayerGrams> grams;
  if (in.value<bool>()) grams = LayerGrams{in.matrix(), in.matrix()};
  LayerFactorization factorization(std::move(grams));
  MessageWriter out;
  out.put(std::ssize(matrices));
  for (const MatrixToFactorize& matrix : matrices) {
    NMM_ASSIGN(const Factors factors,
               factorization.factors(weights.mlp, layer, matrix.matrix, matrix.rank, matrix.stored,
                                     context.checkpoint.folder().string()));
    out.put(factors.v_t);
    out.put(factors.u_t);
    out.put(factors.singular_values);
  }
  return out.take();
}

}  // namespace

Result<Bytes> run_job(const JobContext& context, const LayerJob& job) {
  MessageReader in(job.arguments);
  switch (job.kind) {
    case JobKind::kLosses:
      return run_losses(context, job.layer, in);
    case JobKind::kNarrow:
      return run_narrow(context, job.layer, in);
    case JobKind::kFactors:
      return run_factors(context, job.layer, in);
  }
  return fail("no such job");
}

Bytes job_answer(const JobContext& context, const LayerJob& job) {
  const auto result = run_job(context, job);
  MessageWriter out;
  out.put(result.ok());
  if (result.ok()) {
    out.append(*result);
  } else {
    out.put(result.error().message);
  }
  return out.take();
}

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

LayerJob narrow_job(int64_t layer, const MlpStatistics& statistics, const MlpMetric& metric,
                    const std::vector<int32_t>& order, const io::MlpShape& shape,
                    const StoredFormat& stored) {
  MessageWriter out;
  put_statistics(statistics, out);
  put_metric(metric, out);
  out.put(order);
  out.put(shape);
  out.put(stored);
  return {JobKind::kNarrow, layer, out.take()};
}

NarrowMlp read_narrow_result(MessageReader& in) {
  NarrowMlp narrow;
  narrow.largest_map = in.value<double>();
  const auto count = in.value<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    narrow.tensors.push_back({in.text(), in.matrix(), in.values<int32_t>()});
  }
  return narrow;
}

LayerJob factors_job(int64_t layer, const std::vector<MatrixToFactorize>& matrices,
                     const std::optional<LayerGrams>& grams) {
  MessageWriter out;
  out.put(matrices);
  out.put(grams.has_value());
  if (grams) {
    out.put(grams->in);
    out.put(grams->out);
  }
  return {JobKind::kFactors, layer, out.take()};
}

std::vector<Factors> read_factors_result(MessageReader& in) {
  std::vector<Factors> all;
  const auto count = in.value<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    all.push_back({in.matrix(), in.matrix(), in.values<double>()});
  }
  return all;
}

}  // namespace neuronmm::compress
