#include "compress/factors/pivoting.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace neuronmm::compress {
namespace {

// The largest entry of a map at which swaps stop. Assumed: it is close to 1, which no entry of the
// best pivots exceeds, and few swaps reach it.
constexpr double kLargestEntry = 1.05;
// The largest number of swaps per pivot. Assumed: every swap multiplies the volume of the pivots by
// more than kLargestEntry, so few are needed. The limit matters only for matrices that are not
// finite.
constexpr int64_t kSwapsPerPivot = 8;

// The ridge of least-squares fits (ridge_of_median()). It keeps a fit defined in directions that
// the text did not visit. Assumed: the share is far above the rounding of fp64 and far below the
// square of bf16's rounding.
constexpr double kFitRidge = 1e-8;

struct Entry {
  int64_t row = 0, column = 0;
  double size = 0.0;
};

Entry largest_entry(const DoubleMatrix& map) {
  Entry largest;
  for (int64_t j = 0; j < map.columns(); ++j) {
    for (int64_t i = 0; i < map.rows(); ++i) {
      if (std::abs(map(i, j)) > largest.size) largest = {i, j, std::abs(map(i, j))};
    }
  }
  return largest;
}

// Swaps pivot `at.row` with the other element `at.column`, by a Gauss-Jordan step on `map`, which
// is [r, n - r].
void swap_pivot(DoubleMatrix& map, const Entry& at) {
  const double inverse = 1.0 / map(at.row, at.column);
  std::vector<double> column(map.column(at.column), map.column(at.column) + map.rows());
  for (int64_t j = 0; j < map.columns(); ++j) {
    if (j == at.column) continue;
    const double scaled = map(at.row, j) * inverse;
    if (scaled == 0.0) continue;
    double* const to = map.column(j);
    for (int64_t i = 0; i < map.rows(); ++i) to[i] -= column[static_cast<size_t>(i)] * scaled;
    to[at.row] = scaled;
  }
  double* const to = map.column(at.column);
  for (int64_t i = 0; i < map.rows(); ++i) to[i] = -column[static_cast<size_t>(i)] * inverse;
  to[at.row] = inverse;
}

// Returns the order in which the numbers are ascending.
std::vector<int32_t> ascending(const std::vector<int32_t>& numbers) {
  std::vector<int32_t> order(numbers.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](int32_t i) { return numbers[static_cast<size_t>(i)]; });
  return order;
}

// The matrices that fit weights w_t ~ a·eᵀ, where e [K, r] has the identity in the rows `index`.
// The first fit makes a·eᵀ as close as possible to w_t itself, which decides about directions that
// the text does not determine. The second fit corrects a for inputs with the Gram matrix `gram`.
// All weights that share the input use the same matrices.
struct InputFit {
  DoubleMatrix plain_t;       // [r, K], (eᵀ·e)⁻¹·eᵀ
  DoubleMatrix correction_t;  // [r, K], (eᵀ·gram·e)⁻¹·eᵀ·gram
};
Result<InputFit> input_fit(const DoubleMatrix& e, const DoubleMatrix& gram) {
  InputFit fit;
  NMM_ASSIGN(fit.plain_t,
             solve_positive(multiply(e, Transpose::kYes, e, Transpose::kNo), transposed(e)));
  const DoubleMatrix gram_e = multiply(gram, e);
  DoubleMatrix normal = multiply(e, Transpose::kYes, gram_e, Transpose::kNo);
  add_to_diagonal(ridge_of_median(normal, kFitRidge), normal);
  NMM_ASSIGN(fit.correction_t, solve_positive(std::move(normal), transposed(gram_e)));
  return fit;
}

// Returns w_t - a·eᵀ. The columns `index` of a·eᵀ are a, and the other columns are a·d.
DoubleMatrix left_over(DoubleMatrix w_t, const DoubleMatrix& a, const NarrowInput& input) {
  const DoubleMatrix others = multiply(a, input.d);
  size_t pivot = 0;
  for (int64_t j = 0, other = 0; j < w_t.columns(); ++j) {
    const bool is_pivot = pivot < input.index.size() && input.index[pivot] == j;
    const double* const from =
        is_pivot ? a.column(static_cast<int64_t>(pivot++)) : others.column(other++);
    for (int64_t i = 0; i < w_t.rows(); ++i) w_t(i, j) -= from[i];
  }
  return w_t;
}

DoubleMatrix fit_input(const DoubleMatrix& w_t, const NarrowInput& input, const InputFit& fit) {
  DoubleMatrix a = multiply(w_t, Transpose::kNo, fit.plain_t, Transpose::kYes);
  add(multiply(left_over(w_t, a, input), Transpose::kNo, fit.correction_t, Transpose::kYes), a);
  return a;
}

// Returns rootᵀ·a·root.
DoubleMatrix in_root_basis(const DoubleMatrix& root, const DoubleMatrix& a) {
  return multiply(root, Transpose::kYes, multiply(a, root), Transpose::kNo);
}

// Returns an orthonormal basis of the span of a's columns. Q of Householder's QR is orthonormal
// even if `a` does not have full rank. A matrix of zeros gets an arbitrary basis, and any basis is
// right for it.
Result<DoubleMatrix> orthonormal(DoubleMatrix a) {
  // The lengths of the columns do not change the span in exact arithmetic. In fp64 very different
  // lengths could make the basis less accurate.
  for (int64_t j = 0; j < a.columns(); ++j) {
    double squares = 0.0;
    for (int64_t i = 0; i < a.rows(); ++i) squares += a(i, j) * a(i, j);
    if (squares > 0.0) a.scale_column(j, 1.0 / std::sqrt(squares));
  }
  const int64_t rank = a.columns();
  NMM_ASSIGN(const TallQr qr, TallQr::factor(std::move(a)));
  DoubleMatrix identity(rank, rank);
  add_to_diagonal(1.0, identity);
  return qr.apply_q(identity);
}

}  // namespace

DoubleMatrix identity_and_map(const std::vector<int32_t>& index, const DoubleMatrix& map) {
  DoubleMatrix out(map.rows() + map.columns(), map.columns());
  size_t pivot = 0;
  for (int64_t i = 0, other = 0; i < out.rows(); ++i) {
    if (pivot < index.size() && index[pivot] == i) {
      out(i, static_cast<int64_t>(pivot++)) = 1.0;
    } else {
      for (int64_t j = 0; j < map.columns(); ++j) out(i, j) = map(other, j);
      ++other;
    }
  }
  return out;
}

double PivotChoice::largest() const { return largest_entry(map).size; }

Result<PivotChoice> choose_pivots(const DoubleMatrix& basis) {
  const int64_t rank = basis.columns();
  NMM_ASSIGN(PivotedQr qr, pivoted_qr(transposed(basis)));
  std::vector<int32_t> index(qr.order.begin(), qr.order.begin() + rank);
  std::vector<int32_t> others(qr.order.begin() + rank, qr.order.end());
  for (int64_t swaps = 0; swaps < kSwapsPerPivot * rank; ++swaps) {
    const Entry largest = largest_entry(qr.map);
    if (!(largest.size > kLargestEntry)) break;
    swap_pivot(qr.map, largest);
    std::swap(index[static_cast<size_t>(largest.row)], others[static_cast<size_t>(largest.column)]);
  }
  const std::vector<int32_t> index_order = ascending(index), others_order = ascending(others);
  DoubleMatrix map = transposed(qr.map.rows_at(index_order).columns_at(others_order));
  return PivotChoice{elements_at(index, index_order), elements_at(others, others_order),
                     std::move(map)};
}

Result<std::vector<double>> losses_of_ranks(DoubleMatrix energies) {
  NMM_ASSIGN(const std::vector<double> values, symmetric_eigenvalues(std::move(energies)));
  std::vector<double> loss(values.size() + 1);
  for (size_t i = values.size(); i-- > 0;) loss[i] = loss[i + 1] + 0.5 * std::max(values[i], 0.0);
  return loss;
}

DoubleMatrix weighted_square(const std::vector<InputWeight>& weights) {
  DoubleMatrix sum;
  for (const InputWeight& weight : weights) {
    const DoubleMatrix plain = transposed(*weight.w_t);
    DoubleMatrix scaled = plain;
    for (int64_t j = 0; j < scaled.columns(); ++j) {
      scaled.scale_column(j, weight.row_weights[static_cast<size_t>(j)]);
    }
    const DoubleMatrix square = product_with_transposed(plain, scaled);
    if (sum.size() == 0) sum = DoubleMatrix(square.rows(), square.columns());
    add(square, sum);
  }
  return sum;
}

Result<std::vector<double>> input_losses(const DoubleMatrix& square, const DoubleMatrix& root) {
  return losses_of_ranks(in_root_basis(root, square));
}

// The best row space is that of R_rᵀ·Sᵀ·B, where B is the weighted square, S is `root` and R holds
// the eigenvectors of Sᵀ·B·S.
Result<DoubleMatrix> input_basis(const DoubleMatrix& square, const DoubleMatrix& root,
                                 int64_t rank) {
  NMM_ASSIGN(const SymmetricEigen eigen, symmetric_eigen(in_root_basis(root, square)));
  return orthonormal(multiply(square, multiply(root, eigen.vectors.first_columns(rank))));
}

// After d has been rounded, the weights are fitted to the rounded d.
Result<NarrowInput> narrow_input(const std::vector<InputWeight>& weights, const DoubleMatrix& gram,
                                 const DoubleMatrix& root, int64_t rank,
                                 const StoredFormat& stored) {
  NMM_ASSIGN(const DoubleMatrix basis, input_basis(weighted_square(weights), root, rank));
  NMM_ASSIGN(PivotChoice pivots, choose_pivots(basis));
  NarrowInput out{std::move(pivots.index), transposed(pivots.map), {}, pivots.largest()};
  round_to(map_format(stored), out.d);
  const DoubleMatrix e = identity_and_map(out.index, transposed(out.d));
  NMM_ASSIGN(const InputFit fit, input_fit(e, gram));
  for (const InputWeight& weight : weights) {
    out.weights_t.push_back(fit_input(*weight.w_t, out, fit));
  }
  return out;
}

// The best column space is that of C·R·L_r, where C is `gram_out`, R is `metric_root` and L holds
// the eigenvectors of Rᵀ·C·R. With the rounded map in e, the rows for the pivots are
// (eᵀ·metric·e)⁻¹·eᵀ·metric·w_t.
Result<NarrowOutput> narrow_output(const DoubleMatrix& w_t, const DoubleMatrix& gram_out,
                                   const DoubleMatrix& metric, const DoubleMatrix& metric_root,
                                   int64_t rank, const StoredFormat& stored) {
  NMM_ASSIGN(const SymmetricEigen eigen, symmetric_eigen(in_root_basis(metric_root, gram_out)));
  const DoubleMatrix columns =
      multiply(gram_out, multiply(metric_root, eigen.vectors.first_columns(rank)));
  NMM_ASSIGN(const DoubleMatrix basis, orthonormal(columns));
  NMM_ASSIGN(PivotChoice pivots, choose_pivots(basis));
  NarrowOutput out{std::move(pivots.index), std::move(pivots.map), {}, 0.0};
  out.largest = largest_entry(out.c).size;
  round_to(map_format(stored), out.c);
  const DoubleMatrix e = identity_and_map(out.index, out.c);
  const DoubleMatrix metric_e = multiply(metric, e);
  DoubleMatrix normal = multiply(e, Transpose::kYes, metric_e, Transpose::kNo);
  add_to_diagonal(ridge_of_median(normal, kFitRidge), normal);
  NMM_ASSIGN(out.w_t, solve_positive(std::move(normal),
                                     multiply(metric_e, Transpose::kYes, w_t, Transpose::kNo)));
  return out;
}

}  // namespace neuronmm::compress
