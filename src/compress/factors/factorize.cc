#include "compress/factors/factorize.h"

#include <algorithm>
#include <cmath>

namespace neuronmm::compress {
namespace {

// Computes the SVD of a tall matrix through its QR. The expensive step then works on an [n, n]
// matrix, and only the left vectors that are kept are expanded to m rows.
Result<Svd> truncated_tall_svd(const DoubleMatrix& a, int64_t rank) {
  NMM_ASSIGN(const TallQr qr, TallQr::factor(a));
  NMM_ASSIGN(Svd small, svd(qr.r()));
  NMM_ASSIGN(DoubleMatrix left, qr.apply_q(small.left.first_columns(rank)));
  return Svd{std::move(left), std::move(small.values), small.right_t.first_rows(rank)};
}

// Computes the SVD of a wide matrix from that of its transpose, which has the left and right
// vectors swapped.
Result<Svd> truncated_svd(const DoubleMatrix& a, int64_t rank) {
  if (a.rows() >= a.columns()) return truncated_tall_svd(a, rank);
  NMM_ASSIGN(Svd swapped, truncated_tall_svd(transposed(a), rank));
  return Svd{transposed(swapped.right_t), std::move(swapped.values), transposed(swapped.left)};
}

// Rounds the orthonormal basis P, which becomes the second factor, and fits the first factor to the
// rounded basis P̂. The best first factor is then the least-squares solution and not P̂ᵀ w_t,
// because it makes up for the rounding of P.
Result<Factors> project(const DoubleMatrix& w_t, DoubleMatrix basis,
                        std::vector<double> singular_values, const StoredFormat& stored) {
  round_to(staged_dtype(stored), basis);
  DoubleMatrix rounded = basis;
  round_to(stored, rounded);
  NMM_ASSIGN(DoubleMatrix u_t, least_squares(rounded, w_t));
  round_to(staged_dtype(stored), u_t);
  return Factors{std::move(basis), std::move(u_t), std::move(singular_values)};
}

}  // namespace

double energy_lost(const std::vector<double>& singular_values, int64_t rank) {
  double kept = 0.0, lost = 0.0;
  for (size_t i = singular_values.size(); i-- > 0;) {  // smallest first, for accuracy
    const double energy = singular_values[i] * singular_values[i];
    (static_cast<int64_t>(i) < rank ? kept : lost) += energy;
  }
  return lost == 0.0 ? 0.0 : lost / (kept + lost);
}

Result<Factors> factorize_plain(const DoubleMatrix& w_t, int64_t rank, const StoredFormat& stored) {
  NMM_ASSIGN(Svd decomposed, truncated_svd(w_t, rank));
  if (std::holds_alternative<LowBitFormat>(stored)) {
    return project(w_t, std::move(decomposed.left), std::move(decomposed.values), stored);
  }
  for (int64_t i = 0; i < rank; ++i) {
    const double root = std::sqrt(decomposed.values[static_cast<size_t>(i)]);
    decomposed.left.scale_column(i, root);
    decomposed.right_t.scale_row(i, root);
  }
  round_to(stored, decomposed.left);
  round_to(stored, decomposed.right_t);
  return Factors{std::move(decomposed.left), std::move(decomposed.right_t),
                 std::move(decomposed.values)};
}

Result<Factors> factorize_whitened(const DoubleMatrix& w_t, const DoubleMatrix& root, int64_t rank,
                                   const StoredFormat& stored) {
  const auto whiten = [&](const DoubleMatrix& a) { return multiply(a, root); };
  // N < K: the SVD of w_t·S is computed directly, because a QR of the wide matrix gains nothing.
  if (w_t.rows() < w_t.columns()) {
    NMM_ASSIGN(Svd wide, svd(whiten(w_t)));
    return project(w_t, wide.left.first_columns(rank), std::move(wide.values), stored);
  }
  // With w_t = Q·R, the singular vectors of w_t·S are Q times those of the small matrix R·S.
  NMM_ASSIGN(TallQr qr, TallQr::factor(w_t));
  NMM_ASSIGN(Svd small, svd(whiten(qr.r())));
  NMM_ASSIGN(DoubleMatrix basis, qr.apply_q(small.left.first_columns(rank)));
  // Frees the reflectors, which are as large as w_t.
  qr = TallQr();
  return project(w_t, std::move(basis), std::move(small.values), stored);
}

// For y = w_t·x, C = w_t G w_tᵀ. The eigenvectors of C are the left singular vectors of w_t·S, and
// its eigenvalues are the squares of the singular values.
Result<Factors> factorize_by_output(const DoubleMatrix& w_t, DoubleMatrix gram_out, int64_t rank,
                                    const StoredFormat& stored) {
  NMM_ASSIGN(SymmetricEigen eigen, symmetric_eigen(std::move(gram_out)));
  for (double& value : eigen.values) value = std::sqrt(std::max(value, 0.0));
  return project(w_t, eigen.vectors.first_columns(rank), std::move(eigen.values), stored);
}

}  // namespace neuronmm::compress
