#include "compress/mlp_half.h"

#include <algorithm>
#include <functional>
#include <span>

#include "compress/gram.h"

namespace neuronmm::compress {
namespace {

// Keeps the MLP's input of one sequence.
class InputObserver : public model::MlpObserver {
 public:
  void on_mlp(int64_t, ConstMatrixView rows, ConstMatrixView) override {
    input = Matrix(rows.rows, rows.columns);
    for (int64_t i = 0; i < rows.rows; ++i) std::copy_n(rows.row(i), rows.columns, input.row(i));
  }
  Matrix input;
};

}  // namespace

// The gains of the norm are copied as fp32; the MLP is the backend's.
MlpHalf::MlpHalf(const io::ModelConfig& config, const TensorView& norm, const ops::MlpWeight& mlp,
                 const ops::Backend& backend)
    : eps_(static_cast<float>(config.rms_norm_eps)),
      norm_(static_cast<size_t>(norm.size())),
      backend_(backend),
      mlp_(backend.make_mlp(mlp)) {
  to_floats(norm, 0, norm.size(), norm_.data());
}

// What the MLP reads: the whole half without the MLP itself.
Matrix MlpHalf::input(ConstMatrixView residual) const {
  Matrix normed(residual.rows, residual.columns);
  backend_.rms_norm(residual, norm_, eps_, normed.view());
  return normed;
}

Matrix MlpHalf::output(ConstMatrixView residual) const {
  Matrix out(residual.rows, residual.columns);
  mlp_->apply(input(residual).view(), out.view());
  return out;
}

void gather_mlp_inputs(const model::DecoderLayer& layer, const MlpHalf& half,
                       const ops::RotaryEmbedding& rotary, ops::KvCache* cache,
                       const StreamPair& streams, DoubleMatrix& gram, DoubleMatrix& cross) {
  const ops::SequenceRows rows = {cache, streams.dense.rows};
  InputObserver observer;
  layer.forward(streams.dense, rotary, std::span(&rows, 1), &observer);
  layer.attention_half(streams.compressed, rotary, std::span(&rows, 1));
  const Matrix input = half.input(streams.compressed);
  add_gram(input.view(), gram);
  add_cross_gram(observer.input.view(), input.view(), cross);
}

Matrix difference(ConstMatrixView a, ConstMatrixView b) {
  Matrix out(a.rows, a.columns);
  for (int64_t i = 0; i < a.rows; ++i) {
    std::transform(a.row(i), a.row(i) + a.columns, b.row(i), out.row(i), std::minus<>());
  }
  return out;
}

}  // namespace neuronmm::compress
