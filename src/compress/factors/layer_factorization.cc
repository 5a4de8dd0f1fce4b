#include "compress/factors/layer_factorization.h"

namespace neuronmm::compress {

// Weights are checked first, because a NaN can keep LAPACK busy for a long time or for ever.
Result<Factors> LayerFactorization::factors(const ops::MlpWeight& mlp, int64_t layer,
                                            MlpMatrix matrix, int64_t rank,
                                            const StoredFormat& stored, const std::string& model) {
  const DoubleMatrix w_t = to_double_matrix(weight_of(mlp, matrix).w_t);
  const auto where = [&] {
    return fmt::format("{}: layer {} {}", model, layer, matrix_name(matrix));
  };
  if (!w_t.all_finite()) return fail("{}: the weight holds NaN or infinity", where());
  auto factors = factorize(matrix, w_t, rank, stored);
  if (!factors.ok()) return fail("{}: {}", where(), factors.error().message);
  return factors;
}

Result<Factors> LayerFactorization::factorize(MlpMatrix matrix, const DoubleMatrix& w_t,
                                              int64_t rank, const StoredFormat& stored) {
  if (!grams_) return factorize_plain(w_t, rank, stored);
  if (matrix == MlpMatrix::kDown) {
    return factorize_by_output(w_t, std::move(grams_->out), rank, stored);
  }
  if (root_.size() == 0) {
    NMM_ASSIGN(root_, whitening_root(std::move(grams_->in)));
  }
  return factorize_whitened(w_t, root_, rank, stored);
}

}  // namespace neuronmm::compress
