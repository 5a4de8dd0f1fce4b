#include "compress/statistics/normed_mlp.h"

namespace neuronmm::compress {

// The gains of the norm are copied as fp32. The backend makes the MLP.
NormedMlp::NormedMlp(const io::ModelConfig& config, const TensorView& norm,
                     const ops::MlpWeight& mlp, const ops::Backend& backend)
    : eps_(static_cast<float>(config.rms_norm_eps)),
      norm_(static_cast<size_t>(norm.size())),
      backend_(backend),
      mlp_(backend.make_mlp(mlp)) {
  to_floats(norm, 0, norm.size(), norm_.data());
}

Matrix NormedMlp::input(ConstMatrixView residual) const {
  Matrix normed(residual.rows, residual.columns);
  backend_.rms_norm(residual, norm_, eps_, normed.view());
  return normed;
}

Matrix NormedMlp::output(ConstMatrixView residual) const {
  Matrix out(residual.rows, residual.columns);
  mlp_->apply(input(residual).view(), out.view());
  return out;
}

}  // namespace neuronmm::compress
