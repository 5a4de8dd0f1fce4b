#include "compress/linear_algebra/linear_algebra.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/parallel.h"
#include "compress/linear_algebra/blas.h"
#include "ops/quantize.h"

namespace neuronmm::compress {
namespace {

// Columns per block reflector of the QR. Measured on an [8192, 2048] matrix with one thread: 128
// columns are 7 % faster than 64. They are 21 % faster than the 32 columns that dgeqrf uses.
constexpr int64_t kQrBlock = 128;

// The side of the square blocks in which matrices are transposed. A block of 64 x 64 fp64 has 32
// KiB, about the size of a level-1 cache. Assumed.
constexpr int64_t kTransposeBlock = 64;

// Columns (or rows) of a result that one thread computes at a time. The blocks, and so the results,
// are the same for any number of threads. Assumed: blocks of this width let dgemm reach its speed,
// and 8192 columns give enough blocks for many threads.
constexpr int64_t kBlockPerTask = 256;

struct Block {
  int64_t first = 0, count = 0;
};

// Calls task(block) for the blocks of [first, last). The blocks run on all threads, unless the
// caller itself runs on one of several threads.
template <typename Task>
void for_blocks(int64_t first, int64_t last, const Task& task) {
  parallel_for((last - first + kBlockPerTask - 1) / kBlockPerTask, [&](int64_t i) {
    const int64_t begin = first + i * kBlockPerTask;
    task(Block{begin, std::min(kBlockPerTask, last - begin)});
  });
}

// Converts a size to the 32-bit integers that LAPACK takes.
int as_int(int64_t value) {
  NMM_CHECK(value >= 0 && value <= INT32_MAX);
  return static_cast<int>(value);
}

Status lapack_status(const char* routine, int info) {
  if (info == 0) return {};
  return fail("LAPACK {} did not succeed (info {})", routine, info);
}

// Computes out[j * stride + i] = in[i * rows + j] for j < rows, i < columns. The function converts
// between row-major and column-major order.
void transpose(const double* in, int64_t rows, int64_t columns, double* out, int64_t stride) {
  for (int64_t j0 = 0; j0 < rows; j0 += kTransposeBlock) {
    const int64_t j1 = std::min(rows, j0 + kTransposeBlock);
    for (int64_t i0 = 0; i0 < columns; i0 += kTransposeBlock) {
      const int64_t i1 = std::min(columns, i0 + kTransposeBlock);
      for (int64_t j = j0; j < j1; ++j) {
        for (int64_t i = i0; i < i1; ++i) out[j * stride + i] = in[i * rows + j];
      }
    }
  }
}

CBLAS_TRANSPOSE blas_transpose(Transpose op) {
  return op == Transpose::kYes ? CblasTrans : CblasNoTrans;
}

}  // namespace

DoubleMatrix DoubleMatrix::first_columns(int64_t count) const {
  DoubleMatrix out(rows_, count);
  std::copy_n(data(), out.size(), out.data());
  return out;
}

DoubleMatrix DoubleMatrix::first_rows(int64_t count) const {
  DoubleMatrix out(count, columns_);
  for (int64_t j = 0; j < columns_; ++j) std::copy_n(column(j), count, out.column(j));
  return out;
}

DoubleMatrix DoubleMatrix::first_block(int64_t count) const {
  DoubleMatrix out(count, count);
  for (int64_t j = 0; j < count; ++j) std::copy_n(column(j), count, out.column(j));
  return out;
}

void DoubleMatrix::scale_column(int64_t j, double factor) {
  for (int64_t i = 0; i < rows_; ++i) (*this)(i, j) *= factor;
}

void DoubleMatrix::scale_row(int64_t i, double factor) {
  for (int64_t j = 0; j < columns_; ++j) (*this)(i, j) *= factor;
}

DoubleMatrix DoubleMatrix::rows_at(const std::vector<int32_t>& index) const {
  DoubleMatrix out(std::ssize(index), columns_);
  for (int64_t j = 0; j < columns_; ++j) {
    for (size_t i = 0; i < index.size(); ++i) out.column(j)[i] = column(j)[index[i]];
  }
  return out;
}

DoubleMatrix DoubleMatrix::at(const std::vector<int32_t>& rows,
                              const std::vector<int32_t>& columns) const {
  DoubleMatrix out(std::ssize(rows), std::ssize(columns));
  for (size_t j = 0; j < columns.size(); ++j) {
    const double* const from = column(columns[j]);
    double* const to = out.column(static_cast<int64_t>(j));
    for (size_t i = 0; i < rows.size(); ++i) to[i] = from[rows[i]];
  }
  return out;
}

DoubleMatrix DoubleMatrix::columns_at(const std::vector<int32_t>& index) const {
  DoubleMatrix out(rows_, std::ssize(index));
  for (size_t j = 0; j < index.size(); ++j) {
    std::copy_n(column(index[j]), rows_, out.column(static_cast<int64_t>(j)));
  }
  return out;
}

bool DoubleMatrix::all_finite() const {
  return std::all_of(values_.begin(), values_.end(), [](double v) { return std::isfinite(v); });
}

// Checkpoints are row-major. A strip of rows is widened to fp64 at a time, so that no second copy
// of the whole matrix exists.
DoubleMatrix to_double_matrix(const TensorView& tensor) {
  const int64_t rows = tensor.rows(), columns = tensor.columns();
  DoubleMatrix out(rows, columns);
  parallel_for((rows + kTransposeBlock - 1) / kTransposeBlock, [&](int64_t i) {
    const int64_t i0 = i * kTransposeBlock, count = std::min(rows - i0, kTransposeBlock);
    std::vector<double> strip(static_cast<size_t>(count * columns));
    to_doubles(tensor, i0 * columns, count * columns, strip.data());
    transpose(strip.data(), columns, count, out.data() + i0, rows);
  });
  return out;
}

std::vector<std::byte> to_checkpoint(const DoubleMatrix& matrix, DType dtype) {
  std::vector<double> row_major(static_cast<size_t>(matrix.size()));
  transpose(matrix.data(), matrix.rows(), matrix.columns(), row_major.data(), matrix.columns());
  std::vector<std::byte> bytes;
  bytes.reserve(static_cast<size_t>(matrix.size() * dtype_size_bytes(dtype)));
  append_rounded(dtype, row_major.data(), matrix.size(), bytes);
  return bytes;
}

void round_to(DType dtype, DoubleMatrix& matrix) {
  std::vector<std::byte> bytes;
  for (int64_t j = 0; j < matrix.columns(); ++j) {
    bytes.clear();
    append_rounded(dtype, matrix.column(j), matrix.rows(), bytes);
    to_doubles({dtype, {matrix.rows()}, bytes.data()}, 0, matrix.rows(), matrix.column(j));
  }
}

// Scales belong to groups of columns within a row, so the matrix is converted to row-major order
// and back.
void round_to(const LowBitFormat& format, DoubleMatrix& matrix) {
  const int64_t rows = matrix.rows(), columns = matrix.columns();
  std::vector<double> row_major(static_cast<size_t>(matrix.size()));
  transpose(matrix.data(), rows, columns, row_major.data(), columns);
  const ops::QuantizedWeight rounded = ops::quantize(row_major.data(), rows, columns, format);
  for (int64_t i = 0; i < rows; ++i) {
    ops::to_doubles(rounded.view(), i * columns, columns, row_major.data() + i * columns);
  }
  transpose(row_major.data(), columns, rows, matrix.data(), rows);
}

DoubleMatrix multiply(const DoubleMatrix& a, Transpose op_a, const DoubleMatrix& b,
                      Transpose op_b) {
  DoubleMatrix c(op_a == Transpose::kNo ? a.rows() : a.columns(),
                 op_b == Transpose::kNo ? b.columns() : b.rows());
  add_product(1.0, a, op_a, b, op_b, c);
  return c;
}

DoubleMatrix multiply(const DoubleMatrix& a, const DoubleMatrix& b) {
  return multiply(a, Transpose::kNo, b, Transpose::kNo);
}

void add_product(double factor, const DoubleMatrix& a, Transpose op_a, const DoubleMatrix& b,
                 Transpose op_b, DoubleMatrix& sum) {
  const int64_t m = op_a == Transpose::kNo ? a.rows() : a.columns();
  const int64_t k = op_a == Transpose::kNo ? a.columns() : a.rows();
  const int64_t n = op_b == Transpose::kNo ? b.columns() : b.rows();
  NMM_CHECK(k == (op_b == Transpose::kNo ? b.rows() : b.columns()));
  NMM_CHECK(m == sum.rows() && n == sum.columns());
  for_blocks(0, n, [&](const Block& block) {
    const double* const columns =
        op_b == Transpose::kNo ? b.column(block.first) : b.data() + block.first;
    blas().dgemm(CblasColMajor, blas_transpose(op_a), blas_transpose(op_b), as_int(m),
                 as_int(block.count), as_int(k), factor, a.data(), as_int(a.rows()), columns,
                 as_int(b.rows()), 1.0, sum.column(block.first), as_int(m));
  });
}

DoubleMatrix multiply_lower(const DoubleMatrix& a, const DoubleMatrix& lower) {
  const int64_t m = a.rows(), n = lower.columns();
  NMM_CHECK(a.columns() == n && lower.rows() == n);
  DoubleMatrix c(m, n);
  for_blocks(0, n, [&](const Block& block) {
    const int64_t j = block.first;
    blas().dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, as_int(m), as_int(block.count),
                 as_int(n - j), 1.0, a.column(j), as_int(m), lower.column(j) + j, as_int(n), 0.0,
                 c.column(j), as_int(m));
  });
  return c;
}

DoubleMatrix product_with_transposed(const DoubleMatrix& a, const DoubleMatrix& b) {
  const int64_t n = a.rows(), k = a.columns();
  NMM_CHECK(b.rows() == n && b.columns() == k);
  DoubleMatrix c(n, n);
  for_blocks(0, n, [&](const Block& block) {
    const int64_t j = block.first;
    blas().dgemm(CblasColMajor, CblasNoTrans, CblasTrans, as_int(n - j), as_int(block.count),
                 as_int(k), 1.0, a.data() + j, as_int(n), b.data() + j, as_int(n), 0.0,
                 c.column(j) + j, as_int(n));
  });
  mirror_lower_triangle(c);
  return c;
}

// LAPACK returns ascending eigenvalues. The order is reversed to match that of singular values.
Result<SymmetricEigen> symmetric_eigen(DoubleMatrix a) {
  NMM_CHECK(a.rows() == a.columns());
  const int n = as_int(a.rows());
  std::vector<double> values(static_cast<size_t>(n));
  NMM_TRY(lapack_status("dsyevd",
                        blas().dsyevd(LAPACK_COL_MAJOR, 'V', 'L', n, a.data(), n, values.data())));
  std::reverse(values.begin(), values.end());
  for (int64_t j = 0; j < n / 2; ++j) {
    std::swap_ranges(a.column(j), a.column(j) + n, a.column(n - 1 - j));
  }
  return SymmetricEigen{std::move(values), std::move(a)};
}

// From G = V Λ Vᵀ follows S = V √Λ. Rounding can make small eigenvalues slightly negative; they are
// set to 0.
Result<DoubleMatrix> whitening_root(DoubleMatrix gram) {
  NMM_ASSIGN(SymmetricEigen eigen, symmetric_eigen(std::move(gram)));
  for (int64_t j = 0; j < eigen.vectors.columns(); ++j) {
    const double value = std::max(eigen.values[static_cast<size_t>(j)], 0.0);
    eigen.vectors.scale_column(j, std::sqrt(value));
  }
  return std::move(eigen.vectors);
}

Result<std::vector<double>> symmetric_eigenvalues(DoubleMatrix a) {
  NMM_CHECK(a.rows() == a.columns());
  const int n = as_int(a.rows());
  std::vector<double> values(static_cast<size_t>(n));
  NMM_TRY(lapack_status("dsyevd",
                        blas().dsyevd(LAPACK_COL_MAJOR, 'N', 'L', n, a.data(), n, values.data())));
  std::reverse(values.begin(), values.end());
  return values;
}

// Calls dgesdd, the divide-and-conquer SVD, and computes the thin factors only.
Result<Svd> svd(DoubleMatrix a) {
  const int m = as_int(a.rows()), n = as_int(a.columns()), k = std::min(m, n);
  Svd out{DoubleMatrix(m, k), std::vector<double>(static_cast<size_t>(k)), DoubleMatrix(k, n)};
  NMM_TRY(lapack_status("dgesdd",
                        blas().dgesdd(LAPACK_COL_MAJOR, 'S', m, n, a.data(), m, out.values.data(),
                                      out.left.data(), m, out.right_t.data(), k)));
  return out;
}

Result<TallQr> TallQr::factor(DoubleMatrix a) {
  NMM_CHECK(a.rows() >= a.columns());
  const int m = as_int(a.rows()), n = as_int(a.columns());
  const int block = as_int(std::min<int64_t>(kQrBlock, n));
  TallQr qr;
  qr.reflectors_ = std::move(a);
  qr.block_t_ = DoubleMatrix(block, n);
  NMM_TRY(
      lapack_status("dgeqrt", blas().dgeqrt(LAPACK_COL_MAJOR, m, n, block, qr.reflectors_.data(), m,
                                            qr.block_t_.data(), block)));
  return qr;
}

// dgeqrt stores R on and above the diagonal of the matrix of reflectors.
DoubleMatrix TallQr::r() const {
  const int64_t n = reflectors_.columns();
  DoubleMatrix out(n, n);
  for (int64_t j = 0; j < n; ++j) std::copy_n(reflectors_.column(j), j + 1, out.column(j));
  return out;
}

// x is padded with rows of zeros to the height of Q before the reflectors are applied.
Result<DoubleMatrix> TallQr::apply_q(const DoubleMatrix& x) const {
  const int64_t m = reflectors_.rows(), n = reflectors_.columns();
  NMM_CHECK(x.rows() == n);
  DoubleMatrix out(m, x.columns());
  for (int64_t j = 0; j < x.columns(); ++j) std::copy_n(x.column(j), n, out.column(j));
  const int block = as_int(block_t_.rows());
  NMM_TRY(lapack_status(
      "dgemqrt", blas().dgemqrt(LAPACK_COL_MAJOR, 'L', 'N', as_int(m), as_int(x.columns()),
                                as_int(n), block, reflectors_.data(), as_int(m), block_t_.data(),
                                block, out.data(), as_int(m))));
  return out;
}

// The normal equations [r, r] square the condition number of p. They lose little accuracy, because
// callers pass bases, or second factors whose columns have one length, after they were rounded.
Result<DoubleMatrix> least_squares(const DoubleMatrix& p, const DoubleMatrix& w) {
  const int n = as_int(p.rows()), r = as_int(p.columns());
  DoubleMatrix normal(r, r);
  blas().dsyrk(CblasColMajor, CblasLower, CblasTrans, r, n, 1.0, p.data(), n, 0.0, normal.data(),
               r);
  DoubleMatrix f = multiply(p, Transpose::kYes, w, Transpose::kNo);
  NMM_TRY(lapack_status("dposv", blas().dposv(LAPACK_COL_MAJOR, 'L', r, as_int(w.columns()),
                                              normal.data(), r, f.data(), r)));
  return f;
}

DoubleMatrix transposed(const DoubleMatrix& a) {
  DoubleMatrix out(a.columns(), a.rows());
  transpose(a.data(), a.rows(), a.columns(), out.data(), a.columns());
  return out;
}

DoubleMatrix difference(const DoubleMatrix& a, const DoubleMatrix& b) {
  NMM_CHECK(a.rows() == b.rows() && a.columns() == b.columns());
  DoubleMatrix out(a.rows(), a.columns());
  std::transform(a.data(), a.data() + a.size(), b.data(), out.data(), std::minus<>());
  return out;
}

void add(const DoubleMatrix& a, DoubleMatrix& sum) {
  NMM_CHECK(a.rows() == sum.rows() && a.columns() == sum.columns());
  std::transform(a.data(), a.data() + a.size(), sum.data(), sum.data(), std::plus<>());
}

std::vector<double> diagonal(const DoubleMatrix& a) {
  std::vector<double> out;
  for (int64_t j = 0; j < std::min(a.rows(), a.columns()); ++j) out.push_back(a(j, j));
  return out;
}

void add_to_diagonal(double value, DoubleMatrix& a) {
  for (int64_t j = 0; j < a.columns(); ++j) a(j, j) += value;
}

double ridge_of_mean(const DoubleMatrix& gram, double share) {
  const std::vector<double> values = diagonal(gram);
  const double mean =
      std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  return mean > 0.0 ? share * mean : 1.0;
}

double ridge_of_median(const DoubleMatrix& gram, double share) {
  std::vector<double> values = diagonal(gram);
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle > 0.0 ? share * *middle : 1.0;
}

// The loop works block by block, because one of the two triangles is read or written across its
// columns.
void mirror_lower_triangle(DoubleMatrix& a) {
  const int64_t size = a.columns();
  parallel_for((size + kTransposeBlock - 1) / kTransposeBlock, [&](int64_t block) {
    const int64_t j0 = block * kTransposeBlock;
    for (int64_t i0 = j0; i0 < size; i0 += kTransposeBlock) {
      for (int64_t j = j0; j < std::min(size, j0 + kTransposeBlock); ++j) {
        const int64_t end = std::min(size, i0 + kTransposeBlock);
        for (int64_t i = std::max(i0, j + 1); i < end; ++i) a(j, i) = a(i, j);
      }
    }
  });
}

// Works on column blocks from left to right. Each block is factorized, and its contribution is then
// subtracted from all columns to the right of it.
Result<DoubleMatrix> cholesky(DoubleMatrix a) {
  const int64_t size = a.columns();
  const int n = as_int(size);
  for (int64_t j = 0; j < size; j += kBlockPerTask) {
    const int64_t width = std::min(kBlockPerTask, size - j), below = j + width;
    NMM_TRY(lapack_status("dpotrf",
                          blas().dpotrf(LAPACK_COL_MAJOR, 'L', as_int(width), a.column(j) + j, n)));
    for_blocks(below, size, [&](const Block& rows) {
      blas().dtrsm(CblasColMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit,
                   as_int(rows.count), as_int(width), 1.0, a.column(j) + j, n,
                   a.column(j) + rows.first, n);
    });
    for_blocks(below, size, [&](const Block& block) {
      const double* const left = a.column(j) + block.first;
      blas().dgemm(CblasColMajor, CblasNoTrans, CblasTrans, as_int(size - block.first),
                   as_int(block.count), as_int(width), -1.0, left, n, left, n, 1.0,
                   a.column(block.first) + block.first, n);
    });
  }
  for (int64_t j = 1; j < size; ++j) std::fill_n(a.column(j), j, 0.0);
  return a;
}

Result<DoubleMatrix> inverse_positive(DoubleMatrix a) {
  NMM_ASSIGN(DoubleMatrix inverse, cholesky(std::move(a)));
  const int n = as_int(inverse.rows());
  NMM_TRY(lapack_status("dpotri", blas().dpotri(LAPACK_COL_MAJOR, 'L', n, inverse.data(), n)));
  mirror_lower_triangle(inverse);
  return inverse;
}

// The result is the sum of squares of each column of L⁻¹. Elements of L⁻¹ above the diagonal are 0
// and are skipped.
std::vector<double> inverse_diagonal(const DoubleMatrix& factor) {
  const int64_t size = factor.columns();
  std::vector<double> out(static_cast<size_t>(size));
  for_blocks(0, size, [&](const Block& block) {
    const int64_t j = block.first, rows = size - j;
    DoubleMatrix inverse(rows, block.count);
    for (int64_t i = 0; i < block.count; ++i) inverse(i, i) = 1.0;
    blas().dtrsm(CblasColMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, as_int(rows),
                 as_int(block.count), 1.0, factor.column(j) + j, as_int(size), inverse.data(),
                 as_int(rows));
    for (int64_t i = 0; i < block.count; ++i) {
      const double* const column = inverse.column(i);
      out[static_cast<size_t>(j + i)] = std::inner_product(column, column + rows, column, 0.0);
    }
  });
  return out;
}

Result<DoubleMatrix> solve_positive(DoubleMatrix a, DoubleMatrix b) {
  NMM_CHECK(b.rows() == a.rows());
  NMM_ASSIGN(const DoubleMatrix factor, cholesky(std::move(a)));
  const int n = as_int(factor.rows());
  for_blocks(0, b.columns(), [&](const Block& block) {
    for (const CBLAS_TRANSPOSE op : {CblasNoTrans, CblasTrans}) {
      blas().dtrsm(CblasColMajor, CblasLeft, CblasLower, op, CblasNonUnit, n, as_int(block.count),
                   1.0, factor.data(), n, b.column(block.first), n);
    }
  });
  return b;
}

Result<PivotedQr> pivoted_qr(DoubleMatrix a) {
  const int m = as_int(a.rows()), n = as_int(a.columns());
  NMM_CHECK(m <= n);
  std::vector<int> pivots(static_cast<size_t>(n));  // LAPACK counts from 1
  std::vector<double> reflectors(static_cast<size_t>(m));
  NMM_TRY(lapack_status("dgeqp3", blas().dgeqp3(LAPACK_COL_MAJOR, m, n, a.data(), m, pivots.data(),
                                                reflectors.data())));
  PivotedQr qr{{}, DoubleMatrix(m, n - m)};
  for (const int pivot : pivots) qr.order.push_back(pivot - 1);
  for (int64_t j = m; j < n; ++j) std::copy_n(a.column(j), m, qr.map.column(j - m));
  blas().dtrsm(CblasColMajor, CblasLeft, CblasUpper, CblasNoTrans, CblasNonUnit, m, n - m, 1.0,
               a.data(), m, qr.map.data(), m);
  return qr;
}

}  // namespace neuronmm::compress
