#include "compress/factors/expert_bases.h"

#include <algorithm>
#include <utility>

#include "compress/factors/pivoting.h"

namespace neuronmm::compress {
namespace {

constexpr const char* kInputBasis = "input_basis_proj.weight";
constexpr const char* kOutputBasis = "output_basis_proj.weight";

// The ridge of the fit to the inputs of the text (ridge_of_mean()). Assumed: it only keeps a Gram
// matrix of few tokens invertible, like that of neurons (fewer_neurons.cc).
constexpr double kExpandRidge = 1e-6;

// Returns the left inverse (bᵀ·b)⁻¹·bᵀ [r, n] of a matrix b [n, r] of full column rank.
Result<DoubleMatrix> left_inverse(const DoubleMatrix& b) {
  return solve_positive(multiply(b, Transpose::kYes, b, Transpose::kNo), transposed(b));
}

// Returns the e [H, r] for which e·z is nearest to x on the text, where z = a_t·x and the rows of
// a_t are almost orthonormal. In directions that the text does not visit, e is the left inverse.
Result<DoubleMatrix> expanding(const DoubleMatrix& a_t, const DoubleMatrix& in) {
  NMM_ASSIGN(const DoubleMatrix plain_t, left_inverse(transposed(a_t)));  // [r, H]
  const DoubleMatrix both = multiply(a_t, in);                            // [r, H], mean of z·xᵀ
  DoubleMatrix own = multiply(both, Transpose::kNo, a_t, Transpose::kYes);
  const DoubleMatrix left = difference(both, multiply(own, plain_t));
  add_to_diagonal(ridge_of_mean(own, kExpandRidge), own);
  NMM_ASSIGN(DoubleMatrix expand_t, solve_positive(std::move(own), left));
  add(plain_t, expand_t);
  return transposed(expand_t);
}

}  // namespace

SharedEnergies::SharedEnergies(DoubleMatrix in)
    : in_(std::move(in)), read_(in_.rows(), in_.rows()), written_(in_.rows(), in_.rows()) {}

void SharedEnergies::add(const KeptNeurons& expert, double scale, double squares) {
  const DenseMlp& mlp = expert.mlp;
  compress::add(weighted_square({{&mlp.gate_t, expert.gate_metric}, {&mlp.up_t, expert.up_metric}}),
                read_);
  DoubleMatrix scaled = multiply(mlp.down_t, expert.gram);
  for (int64_t j = 0; j < scaled.columns(); ++j) scaled.scale_column(j, scale);
  compress::add(product_with_transposed(scaled, mlp.down_t), written_);
  if (mlp.down_bias.size() == 0) return;
  // The mean of the neurons is not known, so the bias counts by itself.
  add_product(scale * squares, mlp.down_bias, Transpose::kYes, mlp.down_bias, Transpose::kNo,
              written_);
}

Result<BasisLosses> SharedEnergies::losses() const {
  BasisLosses losses;
  NMM_ASSIGN(const DoubleMatrix root, whitening_root(in_));
  NMM_ASSIGN(losses.input, input_losses(read_, root));
  NMM_ASSIGN(losses.output, losses_of_ranks(written_));
  return losses;
}

Result<NarrowMlp> SharedEnergies::bases(const io::ExpertBases& ranks,
                                        const StoredFormat& stored) const {
  NarrowMlp bases;
  if (ranks.input > 0) {
    NMM_ASSIGN(const DoubleMatrix root, whitening_root(in_));
    NMM_ASSIGN(const DoubleMatrix basis, input_basis(read_, root, ranks.input));
    bases.tensors.push_back({kInputBasis, transposed(basis), {}});
  }
  if (ranks.output > 0) {
    NMM_ASSIGN(const SymmetricEigen eigen, symmetric_eigen(written_));
    bases.tensors.push_back({kOutputBasis, eigen.vectors.first_columns(ranks.output), {}});
  }
  for (MlpTensor& tensor : bases.tensors) round_to(map_format(stored), tensor.values);
  return bases;
}

Result<BasisFit> BasisFit::make(const NarrowMlp& bases, const DoubleMatrix& in) {
  BasisFit fit;
  for (const MlpTensor& tensor : bases.tensors) {
    if (tensor.name == kInputBasis) {
      NMM_ASSIGN(fit.expand_, expanding(tensor.values, in));
    } else {
      NMM_ASSIGN(fit.gather_t_, left_inverse(tensor.values));
    }
  }
  return fit;
}

void BasisFit::apply(NarrowMlp& expert) const {
  for (MlpTensor& tensor : expert.tensors) {
    if (tensor.name.starts_with("down")) {
      if (gather_t_.size() == 0) continue;
      tensor.values = tensor.is_bias()
                          ? multiply(tensor.values, Transpose::kNo, gather_t_, Transpose::kYes)
                          : multiply(gather_t_, tensor.values);
    } else if (!tensor.is_bias() && expand_.size() > 0) {
      tensor.values = multiply(tensor.values, expand_);
    }
  }
}

}  // namespace neuronmm::compress
