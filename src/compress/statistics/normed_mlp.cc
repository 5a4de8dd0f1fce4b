#include "compress/statistics/normed_mlp.h"

#include <algorithm>
#include <vector>

namespace neuronmm::compress {

void remove_bias(const ops::LinearWeight& linear, MutableMatrixView y) {
  if (linear.bias.empty()) return;
  std::vector<float> bias(static_cast<size_t>(y.columns));
  to_floats(linear.bias, 0, y.columns, bias.data());
  for (int64_t i = 0; i < y.rows; ++i) {
    for (int64_t j = 0; j < y.columns; ++j) y.row(i)[j] -= bias[static_cast<size_t>(j)];
  }
}

// The gains of the norms are copied as fp32. The backend makes the MLP.
NormedMlp::NormedMlp(const io::ModelConfig& config, const model::LayerWeights& layer,
                     const ops::MlpWeight& mlp, const ops::Backend& backend)
    : around_(config, layer.post_attention_norm, layer.mlp_output_norm),
      backend_(backend),
      mlp_(backend.make_mlp(mlp)) {}

Matrix NormedMlp::input(ConstMatrixView residual) const {
  Matrix normed(residual.rows, residual.columns);
  const ConstMatrixView read = around_.input(backend_, residual, normed.view());
  if (read.data == normed.data()) return normed;
  for (int64_t i = 0; i < read.rows; ++i) std::copy_n(read.row(i), read.columns, normed.row(i));
  return normed;
}

Matrix NormedMlp::output(ConstMatrixView residual) const {
  Matrix out(residual.rows, residual.columns);
  mlp_->apply(input(residual).view(), out.view());
  return out;
}

void NormedMlp::add_to(MutableMatrixView residual) const {
  Matrix out = output(residual);
  finish(out.view());
  backend_.add(out.view(), residual);
}

}  // namespace neuronmm::compress
