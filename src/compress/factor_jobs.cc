#include "compress/factor_jobs.h"

#include "compress/layer_factorization.h"
#include "compress/mlp_message.h"
#include "model/transformer.h"

namespace neuronmm::compress {

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

Result<Bytes> run_narrow_job(const JobContext& context, const LayerJob& job) {
  MessageReader in(job.arguments);
  NMM_ASSIGN(const auto weights,
             model::layer_weights(context.checkpoint, context.config, job.layer));
  NMM_ASSIGN(DenseMlp mlp, DenseMlp::read(weights.mlp));
  MlpStatistics statistics = read_statistics(in);
  const MlpMetric metric = read_metric(in);
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

Result<Bytes> run_factors_job(const JobContext& context, const LayerJob& job) {
  MessageReader in(job.arguments);
  NMM_ASSIGN(const auto weights,
             model::layer_weights(context.checkpoint, context.config, job.layer));
  const auto matrices = in.values<MatrixToFactorize>();
  std::optional<LayerGrams> grams;
  if (in.value<bool>()) grams = LayerGrams{in.matrix(), in.matrix()};
  LayerFactorization factorization(std::move(grams));
  MessageWriter out;
  out.put(std::ssize(matrices));
  for (const MatrixToFactorize& matrix : matrices) {
    NMM_ASSIGN(const Factors factors,
               factorization.factors(weights.mlp, job.layer, matrix.matrix, matrix.rank,
                                     matrix.stored, context.checkpoint.folder().string()));
    out.put(factors.v_t);
    out.put(factors.u_t);
    out.put(factors.singular_values);
  }
  return out.take();
}

}  // namespace neuronmm::compress
