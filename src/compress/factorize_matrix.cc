#include "compress/factorize_matrix.h"

namespace neuronmm::compress {

namespace {

// LAPACK would go on for long, or not at all, with a NaN.
Result<Factors> checked_factors(const ops::MlpWeight& mlp, int64_t layer, MlpMatrix matrix,
                                const Factorization& factorization, const StoredFormat& stored,
                                const std::string& model) {
  const DoubleMatrix w_t = to_double_matrix(weight_of(mlp, matrix).w_t);
  const auto where = [&] {
    return fmt::format("{}: layer {} {}", model, layer, matrix_name(matrix));
  };
  if (!w_t.all_finite()) return fail("{}: the weight holds NaN or infinity", where());
  auto factors = factorization(w_t, stored);
  if (!factors.ok()) return fail("{}: {}", where(), factors.error().message);
  return factors;
}

}  // namespace

Result<Factors> LayerFactorization::factors(const ops::MlpWeight& mlp, int64_t layer,
                                            MlpMatrix matrix, int64_t rank,
                                            const StoredFormat& stored, const std::string& model) {
  const auto method = [&](const DoubleMatrix& w_t, const StoredFormat& format) {
    return factorize(matrix, w_t, rank, format);
  };
  return checked_factors(mlp, layer, matrix, method, stored, model);
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

// What is in the work folder survives an interrupt.
Result<MatrixReport> factorize_matrix(const ops::MlpWeight& mlp, const MatrixPlan& plan,
                                      const Factorization& factorization,
                                      const WeightFormats& weights, const StagedWork& work,
                                      const std::string& model) {
  const StoredFormat stored = stored_format(weights, weight_of(mlp, plan.matrix).w_t.dtype);
  NMM_ASSIGN(const Factors factors,
             checked_factors(mlp, plan.layer, plan.matrix, factorization, stored, model));
  return save_factors(plan, factors, stored, work);
}

Result<MatrixReport> save_factors(const MatrixPlan& plan, const Factors& factors,
                                  const StoredFormat& stored, const StagedWork& work) {
  const DType dtype = staged_dtype(stored);
  for (const DoubleMatrix* const factor : {&factors.u_t, &factors.v_t}) {
    NMM_TRY(check_range(fmt::format("layer {} {}", plan.layer, matrix_name(plan.matrix)), *factor,
                        dtype));
  }
  NMM_TRY(work.save(plan, dtype, factors));
  return MatrixReport{plan.layer, plan.matrix, plan.rank, plan.kept_share,
                      energy_lost(factors.singular_values, plan.rank)};
}

// Float factors are read where the file is mapped.
TensorView FactoredMlp::factor(const io::SafetensorsFile& file, const char* name) {
  const TensorView& staged = file.tensors().at(name);
  if (!formats_) return staged;
  rounded_.push_back(stored_values(formats_->linear, to_double_matrix(staged)));
  return {DType::kF32, staged.shape, rounded_.back().data()};
}

// From here on the matrix is low-rank.
Status FactoredMlp::use_factors(const StagedWork& work, int64_t layer, MlpMatrix matrix) {
  NMM_ASSIGN(auto file, work.open_factors(layer, matrix));
  auto& weight = const_cast<ops::LinearWeight&>(weight_of(weight_, matrix));
  weight.w_t = {};
  weight.u_t = factor(file, "u_t");
  weight.v_t = factor(file, "v_t");
  files_.push_back(std::move(file));
  return {};
}

}  // namespace neuronmm::compress
