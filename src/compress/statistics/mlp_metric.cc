#include "compress/statistics/mlp_metric.h"

#include "compress/statistics/matrix_tensor.h"
#include "io/safetensors.h"

namespace neuronmm::compress {
namespace {

// The damping of the metric, as a share of its mean diagonal. Measured on SmolLM2 in form mixed at
// kept .9 (docs/measurements/quality.md): a damping of .1 changes little, and larger ones lose
// more.
constexpr double kDamping = 0.01;

Result<DoubleMatrix> metric_tensor(const io::SafetensorsFile& file, const std::string& name,
                                   const Shape& shape, const std::string& source) {
  NMM_ASSIGN(DoubleMatrix out, read_matrix(file, name, shape, source));
  if (!out.all_finite()) return fail("{}: {}: found NaN or infinity", source, name);
  return out;
}

std::vector<double> values_of(const DoubleMatrix& row) {
  return {row.data(), row.data() + row.size()};
}

}  // namespace

MlpMetric local_metric(const MlpStatistics& statistics, const DoubleMatrix& down_t) {
  const int64_t hidden = down_t.rows(), inner = down_t.columns();
  const double squares = statistics.residual(0, 0);
  const double scale = squares > 0.0 ? 1.0 / squares : 1.0;
  MlpMetric metric{DoubleMatrix(hidden, hidden), {}, {}};
  for (int64_t i = 0; i < hidden; ++i) metric.out(i, i) = scale;
  for (int64_t j = 0; j < inner; ++j) {
    double column = 0.0;
    for (int64_t i = 0; i < hidden; ++i) column += down_t(i, j) * down_t(i, j);
    metric.gate.push_back(scale * column * statistics.gate_slope(0, j));
    metric.up.push_back(scale * column * statistics.up_slope(0, j));
  }
  return metric;
}

Result<MlpMetric> read_metric(const std::filesystem::path& path, int64_t layer,
                              const io::ModelConfig& config) {
  NMM_ASSIGN(const auto file, io::SafetensorsFile::open(path));
  const std::string prefix = fmt::format("model.layers.{}.mlp.metric_", layer);
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  MlpMetric metric;
  NMM_ASSIGN(metric.out, metric_tensor(file, prefix + "out", {hidden, hidden}, path.string()));
  NMM_ASSIGN(const DoubleMatrix gate, metric_tensor(file, prefix + "gate", {inner}, path.string()));
  NMM_ASSIGN(const DoubleMatrix up, metric_tensor(file, prefix + "up", {inner}, path.string()));
  metric.gate = values_of(gate);
  metric.up = values_of(up);
  double trace = 0.0;
  for (const double value : diagonal(metric.out)) trace += value;
  const double damping = trace > 0.0 ? kDamping * trace / static_cast<double>(hidden) : 1.0;
  for (int64_t i = 0; i < hidden; ++i) metric.out(i, i) += damping;
  return metric;
}

}  // namespace neuronmm::compress
