#pragma once
// The few fp64 operations that a factorization needs, on OpenBLAS and LAPACK. Matrices are
// column-major, as LAPACK stores them. Products, Cholesky factors and what is solved with them run
// on all threads, in blocks that do not depend on how many there are.

#include <cstdint>
#include <vector>

#include "base/low_bit_format.h"
#include "base/result.h"
#include "base/tensor.h"

namespace neuronmm::compress {

// An owned fp64 matrix [rows, columns], zero-initialised; column j starts at column(j).
class DoubleMatrix {
 public:
  DoubleMatrix() = default;
  DoubleMatrix(int64_t rows, int64_t columns)
      : rows_(rows), columns_(columns), values_(static_cast<size_t>(rows * columns)) {}

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t size() const { return rows_ * columns_; }
  double* data() { return values_.data(); }
  const double* data() const { return values_.data(); }
  double* column(int64_t j) { return data() + j * rows_; }
  const double* column(int64_t j) const { return data() + j * rows_; }
  double& operator()(int64_t i, int64_t j) { return column(j)[i]; }
  double operator()(int64_t i, int64_t j) const { return column(j)[i]; }

  DoubleMatrix first_columns(int64_t count) const;
  DoubleMatrix first_rows(int64_t count) const;
  DoubleMatrix first_block(int64_t count) const;  // [count, count]
  void scale_column(int64_t j, double factor);
  void scale_row(int64_t i, double factor);
  bool all_finite() const;
  // These rows, or columns, in this order.
  DoubleMatrix rows_at(const std::vector<int32_t>& index) const;
  DoubleMatrix columns_at(const std::vector<int32_t>& index) const;
  // The elements of these rows and columns.
  DoubleMatrix at(const std::vector<int32_t>& rows, const std::vector<int32_t>& columns) const;

 private:
  int64_t rows_ = 0, columns_ = 0;
  std::vector<double> values_;
};

// A checkpoint's matrix and back. Checkpoints are row-major.
DoubleMatrix to_double_matrix(const TensorView& tensor);
std::vector<std::byte> to_checkpoint(const DoubleMatrix& matrix, DType dtype);
// The values that `dtype` would store.
void round_to(DType dtype, DoubleMatrix& matrix);
// Those that ops::quantize rounds to.
void round_to(const LowBitFormat& format, DoubleMatrix& matrix);

enum class Transpose { kNo, kYes };
// op(a) · op(b).
DoubleMatrix multiply(const DoubleMatrix& a, Transpose op_a, const DoubleMatrix& b, Transpose op_b);
// sum += factor · op(a) · op(b).
void add_product(double factor, const DoubleMatrix& a, Transpose op_a, const DoubleMatrix& b,
                 Transpose op_b, DoubleMatrix& sum);

// a · lower, which has zeros above the diagonal.
DoubleMatrix multiply_lower(const DoubleMatrix& a, const DoubleMatrix& lower);
// a · bᵀ where that is known to be symmetric: only its lower triangle is computed.
DoubleMatrix product_with_transposed(const DoubleMatrix& a, const DoubleMatrix& b);

DoubleMatrix transposed(const DoubleMatrix& a);
DoubleMatrix difference(const DoubleMatrix& a, const DoubleMatrix& b);
void add(const DoubleMatrix& a, DoubleMatrix& sum);
std::vector<double> diagonal(const DoubleMatrix& a);
void add_to_diagonal(double value, DoubleMatrix& a);
// Copies what is below the diagonal above it.
void mirror_lower_triangle(DoubleMatrix& a);

struct SymmetricEigen {
  std::vector<double> values;  // descending
  DoubleMatrix vectors;        // [n, n], one per column
};
// Reads the lower triangle.
Result<SymmetricEigen> symmetric_eigen(DoubleMatrix a);
Result<std::vector<double>> symmetric_eigenvalues(DoubleMatrix a);  // descending
// S [n, n] with S·Sᵀ = gram: eigenvectors times √eigenvalue, negative eigenvalues taken as 0.
Result<DoubleMatrix> whitening_root(DoubleMatrix gram);

struct Svd {
  DoubleMatrix left;           // [m, k], k = min(m, n)
  std::vector<double> values;  // descending
  DoubleMatrix right_t;        // [k, n]
};
Result<Svd> svd(DoubleMatrix a);

// Householder QR of a tall matrix [m, n], m >= n: a = q · r with q [m, n], kept as reflectors.
class TallQr {
 public:
  static Result<TallQr> factor(DoubleMatrix a);
  DoubleMatrix r() const;                                     // [n, n], upper triangular
  Result<DoubleMatrix> apply_q(const DoubleMatrix& x) const;  // q · x, x [n, c]

 private:
  DoubleMatrix reflectors_, block_t_;
};

// The f [r, K] that minimises ‖w - p·f‖ for every norm that is a sum over columns, p [N, r] of full
// column rank, w [N, K]: (pᵀp)⁻¹ pᵀw.
Result<DoubleMatrix> least_squares(const DoubleMatrix& p, const DoubleMatrix& w);

// The lower triangular L with L·Lᵀ = a, zeros above the diagonal; a positive definite, of which the
// lower triangle is read.
Result<DoubleMatrix> cholesky(DoubleMatrix a);
// Of a positive definite matrix, of which the lower triangle is read.
Result<DoubleMatrix> inverse_positive(DoubleMatrix a);
// The diagonal of (L·Lᵀ)⁻¹.
std::vector<double> inverse_diagonal(const DoubleMatrix& cholesky_factor);
// X with a·X = b, a positive definite [n, n], of which the lower triangle is read; b [n, m].
Result<DoubleMatrix> solve_positive(DoubleMatrix a, DoubleMatrix b);
// QR with column pivoting of a wide matrix [m, n], m <= n: R₁⁻¹·[R₁ R₂], that is, the columns of
// `a` as combinations of its first m pivots, in the order that `order` [n] gives. a has rank m.
struct PivotedQr {
  std::vector<int32_t> order;  // [n]; the first m are the pivots
  DoubleMatrix map;            // [m, n - m]: of the others
};
Result<PivotedQr> pivoted_qr(DoubleMatrix a);

}  // namespace neuronmm::compress
