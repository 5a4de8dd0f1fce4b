#include "compress/factorize_matrix.h"

namespace neuronmm::compress {

DType staged_dtype(WeightFormat format, DType weight) {
  return format == WeightFormat::kInt8 ? DType::kF32 : weight;
}

// Read, factorized, kept on disk: what is in the work folder survives an interrupt.
Result<MatrixReport> factorize_matrix(const ops::MlpWeight& mlp, const MatrixPlan& plan,
                                      const Factorization& factorization, WeightFormat format,
                                      const StagedWork& work, const std::string& model) {
  const TensorView& tensor = weight_of(mlp, plan.matrix).w_t;
  const DoubleMatrix w_t = to_double_matrix(tensor);
  const auto where = [&] {
    return fmt::format("{}: layer {} {}", model, plan.layer, matrix_name(plan.matrix));
  };
  // LAPACK would go on for long, or not at all, with a NaN.
  if (!w_t.all_finite()) return fail("{}: the weight holds NaN or infinity", where());
  const Result<Factors> factors =
      factorization(w_t, format == WeightFormat::kInt8 ? DType::kI8 : tensor.dtype);
  if (!factors.ok()) return fail("{}: {}", where(), factors.error().message);
  NMM_TRY(work.save(plan, staged_dtype(format, tensor.dtype), *factors));
  return MatrixReport{plan.layer, plan.matrix, plan.rank, plan.kept_share,
                      energy_lost(factors->singular_values, plan.rank)};
}

// From here on the matrix is low-rank: its factors are read where the file is mapped.
Status FactoredMlp::use_factors(const StagedWork& work, int64_t layer, MlpMatrix matrix) {
  NMM_ASSIGN(auto file, work.open_factors(layer, matrix));
  auto& weight = const_cast<ops::LinearWeight&>(weight_of(weight_, matrix));
  weight.w_t = {};
  weight.u_t = file.tensors().at("u_t");
  weight.v_t = file.tensors().at("v_t");
  files_.push_back(std::move(file));
  return {};
}

}  // namespace neuronmm::compress
