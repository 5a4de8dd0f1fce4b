#pragma once
// The fp64 matrix operations that the compression needs, on top of OpenBLAS and LAPACK (blas.h).
// Matrices are column-major, as LAPACK stores them. Products, Cholesky factors and solutions that
// use them run on all threads. They are computed in blocks that do not depend on the number of
// threads, so the results do not depend on it either. Operations that return a Result fail when
// LAPACK does.

#include <cstdint>
#include <vector>

#include "base/low_bit_format.h"
#include "base/result.h"
#include "base/tensor.h"

namespace neuronmm::compress {

// An fp64 matrix [rows, columns] that owns its values, initialised with zeros. The elements of
// column j are contiguous and begin at column(j).
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
  DoubleMatrix first_block(int64_t count) const;
  void scale_column(int64_t j, double factor);
  void scale_row(int64_t i, double factor);
  bool all_finite() const;
  // Return the rows, or the columns, with the given indices, in that order.
  DoubleMatrix rows_at(const std::vector<int32_t>& index) const;
  DoubleMatrix columns_at(const std::vector<int32_t>& index) const;
  // Returns the elements in the given rows and columns.
  DoubleMatrix at(const std::vector<int32_t>& rows, const std::vector<int32_t>& columns) const;

 private:
  int64_t rows_ = 0, columns_ = 0;
  std::vector<double> values_;
};

// Convert a checkpoint's tensor to a matrix, and a matrix to the bytes of a tensor. Checkpoints are
// row-major.
DoubleMatrix to_double_matrix(const TensorView& tensor);
std::vector<std::byte> to_checkpoint(const DoubleMatrix& matrix, DType dtype);
// Rounds every value to what `dtype` would store.
void round_to(DType dtype, DoubleMatrix& matrix);
// Rounds every value to what ops::quantize() makes of it.
void round_to(const LowBitFormat& format, DoubleMatrix& matrix);

// Returns the values with the given indices, in that order.
template <typename T>
std::vector<T> elements_at(const std::vector<T>& values, const std::vector<int32_t>& index) {
  std::vector<T> out;
  for (const int32_t i : index) out.push_back(values[static_cast<size_t>(i)]);
  return out;
}

enum class Transpose { kNo, kYes };
// Returns op(a) · op(b).
DoubleMatrix multiply(const DoubleMatrix& a, Transpose op_a, const DoubleMatrix& b, Transpose op_b);
// Returns a · b.
DoubleMatrix multiply(const DoubleMatrix& a, const DoubleMatrix& b);
// Computes sum += factor · op(a) · op(b). `sum` must have the shape of the product.
void add_product(double factor, const DoubleMatrix& a, Transpose op_a, const DoubleMatrix& b,
                 Transpose op_b, DoubleMatrix& sum);

// Returns a · lower for a lower triangular matrix, which has zeros above the diagonal.
DoubleMatrix multiply_lower(const DoubleMatrix& a, const DoubleMatrix& lower);
// Returns a · bᵀ [n, n] for a and b [n, k] whose product is known to be symmetric. Only the lower
// triangle is computed, and then mirrored.
DoubleMatrix product_with_transposed(const DoubleMatrix& a, const DoubleMatrix& b);

DoubleMatrix transposed(const DoubleMatrix& a);
DoubleMatrix difference(const DoubleMatrix& a, const DoubleMatrix& b);
void add(const DoubleMatrix& a, DoubleMatrix& sum);
std::vector<double> diagonal(const DoubleMatrix& a);
void add_to_diagonal(double value, DoubleMatrix& a);
// Return the value that a fit adds to the diagonal of `gram`: `share` times the mean or the median
// of the diagonal, or 1 if that is 0. One massive activation can make up 99 % of the trace, and the
// median does not depend on it.
double ridge_of_mean(const DoubleMatrix& gram, double share);
double ridge_of_median(const DoubleMatrix& gram, double share);
// Copies the elements below the diagonal to above it.
void mirror_lower_triangle(DoubleMatrix& a);

struct SymmetricEigen {
  std::vector<double> values;  // descending
  DoubleMatrix vectors;        // [n, n], one eigenvector per column
};
// Returns the eigenvalues and eigenvectors of a symmetric matrix. Only the lower triangle is read.
Result<SymmetricEigen> symmetric_eigen(DoubleMatrix a);
// Returns the eigenvalues only, in descending order. Only the lower triangle is read.
Result<std::vector<double>> symmetric_eigenvalues(DoubleMatrix a);
// Returns a matrix S [n, n] with S·Sᵀ = gram. The columns of S are the eigenvectors times the
// square roots of their eigenvalues. Negative eigenvalues count as 0.
Result<DoubleMatrix> whitening_root(DoubleMatrix gram);

struct Svd {
  DoubleMatrix left;           // [m, k], k = min(m, n)
  std::vector<double> values;  // descending
  DoubleMatrix right_t;        // [k, n]
};
// Returns the thin SVD of a [m, n].
Result<Svd> svd(DoubleMatrix a);

// The Householder QR of a tall matrix [m, n], m >= n: a = q · r with q [m, n]. q is kept as
// reflectors.
class TallQr {
 public:
  static Result<TallQr> factor(DoubleMatrix a);
  // Returns the upper triangular factor [n, n].
  DoubleMatrix r() const;
  // Returns q · x [m, c] for x [n, c].
  Result<DoubleMatrix> apply_q(const DoubleMatrix& x) const;

 private:
  DoubleMatrix reflectors_, block_t_;
};

// Returns the f [r, K] that minimises ‖w - p·f‖ for w [N, K] and p [N, r]. The solution (pᵀp)⁻¹ pᵀw
// is optimal for every column of w by itself, so it also minimises ‖(w - p·f)·S‖ for every S. Fails
// if the columns of p are so dependent that pᵀp has no Cholesky factor in fp64.
Result<DoubleMatrix> least_squares(const DoubleMatrix& p, const DoubleMatrix& w);

// Returns the lower triangular L with L·Lᵀ = a, with zeros above the diagonal. Only the lower
// triangle of a is read. Fails if a is not positive definite.
Result<DoubleMatrix> cholesky(DoubleMatrix a);
// Returns the inverse of a positive definite matrix. Only the lower triangle of a is read.
Result<DoubleMatrix> inverse_positive(DoubleMatrix a);
// Returns the diagonal of (L·Lᵀ)⁻¹ for a lower triangular L [n, n].
std::vector<double> inverse_diagonal(const DoubleMatrix& cholesky_factor);
// Returns the X [n, m] with a·X = b for a positive definite a [n, n]. Only the lower triangle of a
// is read.
Result<DoubleMatrix> solve_positive(DoubleMatrix a, DoubleMatrix b);

// The QR with column pivoting of a wide matrix a [m, n], m <= n, of rank m. With the columns in the
// order `order`, a = Q·[R₁ R₂]. The first m columns are the pivots, and every other column is a
// combination of the pivots.
struct PivotedQr {
  std::vector<int32_t> order;  // [n]; the first m are the pivots
  DoubleMatrix map;  // [m, n - m], R₁⁻¹·R₂: the other columns as combinations of the pivots
};
Result<PivotedQr> pivoted_qr(DoubleMatrix a);

}  // namespace neuronmm::compress
