#include "compress/factorize_matrix.h"

namespace neuronmm::compress {

// Read, factorized, kept on disk: what is in the work folder survives an interrupt.
Result<MatrixReport> factorize_matrix(const ops::MlpWeight& mlp, const MatrixPlan& plan,
                                      const Factorization& factorization,
                                      const WeightFormats& weights, const StagedWork& work,
                                      const std::string& model) {
  const TensorView& tensor = weight_of(mlp, plan.matrix).w_t;
  const DoubleMatrix w_t = to_double_matrix(tensor);
  const auto where = [&] {
    return fmt::format("{}: layer {} {}", model, plan.layer, matrix_name(plan.matrix));
  };
  // LAPACK would go on for long, or not at all, with a NaN.
  if (!w_t.all_finite()) return fail("{}: the weight holds NaN or infinity", where());
  const StoredFormat stored = stored_format(weights, tensor.dtype);
  const Result<Factors> factors = factorization(w_t, stored);
  if (!factors.ok()) return fail("{}: {}", where(), factors.error().message);
  NMM_TRY(work.save(plan, staged_dtype(stored), *factors));
  return MatrixReport{plan.layer, plan.matrix, plan.rank, plan.kept_share,
                      energy_lost(factors->singular_values, plan.rank)};
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
