#include "compress/statistics/mlp_message.h"

namespace neuronmm::compress {
namespace {

void put_tensor(const TensorView& any, MessageWriter& out) {
  std::vector<std::byte> storage;
  const TensorView tensor = without_foreign(any, DType::kF32, storage);
  out.put(tensor.dtype);
  out.put(tensor.shape);
  const auto bytes = static_cast<size_t>(tensor.shape.empty() ? 0 : tensor.size_bytes());
  out.put_all(std::span<const std::byte>(tensor.data, bytes));
}

void put_pivots(const ops::Pivots& pivots, MessageWriter& out) {
  out.put(pivots.index);
  if (!pivots.empty()) put_tensor(pivots.map_t, out);
}

bool is_own(const ops::LinearWeight& weight, const ops::LinearWeight& own) {
  return !weight.low_rank() && !weight.pivoted() && weight.w_t.data == own.w_t.data;
}

void put_linear(const ops::LinearWeight& weight, const ops::LinearWeight& own, MessageWriter& out) {
  NMM_CHECK(is_own(weight, own) || !weight.quantized());
  out.put(is_own(weight, own));
  if (is_own(weight, own)) return;
  put_tensor(weight.w_t, out);
  put_tensor(weight.u_t, out);
  put_tensor(weight.v_t, out);
  put_pivots(weight.in, out);
  put_pivots(weight.out, out);
  put_tensor(weight.bias, out);
}

}  // namespace

void put_mlp(const ops::MlpWeight& mlp, const ops::MlpWeight& own, MessageWriter& out) {
  put_linear(mlp.gate, own.gate, out);
  put_linear(mlp.up, own.up, out);
  put_linear(mlp.down, own.down, out);
  put_pivots(mlp.in, out);
  out.put(mlp.activation);
}

ReceivedMlp::ReceivedMlp(MessageReader& in, const ops::MlpWeight& own) {
  weight_.gate = linear(in, own.gate);
  weight_.up = linear(in, own.up);
  weight_.down = linear(in, own.down);
  weight_.in = pivots(in);
  weight_.activation = in.value<Activation>();
}

TensorView ReceivedMlp::tensor(MessageReader& in) {
  const auto dtype = in.value<DType>();
  const Shape shape = in.values<int64_t>();
  held_.push_back(in.values<std::byte>());
  if (shape.empty()) return {};
  return {dtype, shape, held_.back().data()};
}

ops::Pivots ReceivedMlp::pivots(MessageReader& in) {
  ops::Pivots pivots;
  pivots.index = in.values<int32_t>();
  if (!pivots.empty()) pivots.map_t = tensor(in);
  return pivots;
}

ops::LinearWeight ReceivedMlp::linear(MessageReader& in, const ops::LinearWeight& own) {
  if (in.value<bool>()) return own;
  ops::LinearWeight weight;
  weight.w_t = tensor(in);
  weight.u_t = tensor(in);
  weight.v_t = tensor(in);
  weight.in = pivots(in);
  weight.out = pivots(in);
  weight.bias = tensor(in);
  return weight;
}

void put_statistics(const MlpStatistics& statistics, MessageWriter& out) {
  out.put(statistics.in);
  out.put(statistics.neurons);
  out.put(statistics.gate_slope);
  out.put(statistics.up_slope);
  out.put(statistics.residual);
}

// C++ evaluates the elements of a braced list in their order.
MlpStatistics read_statistics(MessageReader& in) {
  return {in.matrix(), in.matrix(), in.matrix(), in.matrix(), in.matrix()};
}

void put_metric(const MlpMetric& metric, MessageWriter& out) {
  out.put(metric.out);
  out.put(metric.gate);
  out.put(metric.up);
}

MlpMetric read_metric(MessageReader& in) {
  return {in.matrix(), in.values<double>(), in.values<double>()};
}

}  // namespace neuronmm::compress
