#include "compress/linear_algebra/gram.h"

#include <algorithm>

#include "base/parallel.h"
#include "compress/linear_algebra/blas.h"

namespace neuronmm::compress {
namespace {

// Tokens per matrix product. Assumed: enough for dgemm to reach its speed, while a block [256, H]
// in fp64 stays small.
constexpr int64_t kTokenBlock = 256;
// Columns of the Gram matrix per parallel task. Assumed.
constexpr int64_t kColumnBlock = 256;

// Copies tokens into the columns of `block`, because dgemm then reads both factors along their
// columns.
void copy_tokens(ConstMatrixView rows, int64_t first, int64_t count, DoubleMatrix& block) {
  parallel_for(count,
               [&](int64_t t) { std::copy_n(rows.row(first + t), rows.columns, block.column(t)); });
}

enum class Part { kAll, kLowerTriangle };

// Computes sum += AᵀB for matrices whose rows are tokens, with one matrix product per block of
// tokens. The threads share the columns of each product. For a symmetric sum, only the elements on
// and below the diagonal are computed, which is half of the work. Each range of columns then
// consists of a square on the diagonal (dsyrk) and the rows below it (dgemm).
void add_products(ConstMatrixView a, ConstMatrixView b, Part part, DoubleMatrix& sum) {
  const int64_t rows = a.columns, size = b.columns;
  NMM_CHECK(rows <= sum.rows() && size <= sum.columns() && a.rows == b.rows);
  const bool same = a.data == b.data;
  DoubleMatrix block_a(rows, std::min(a.rows, kTokenBlock));
  DoubleMatrix block_b = same ? DoubleMatrix() : DoubleMatrix(size, block_a.columns());
  for (int64_t first = 0; first < a.rows; first += kTokenBlock) {
    const int64_t count = std::min(a.rows - first, kTokenBlock);
    copy_tokens(a, first, count, block_a);
    if (!same) copy_tokens(b, first, count, block_b);
    const DoubleMatrix& right = same ? block_a : block_b;
    parallel_for((size + kColumnBlock - 1) / kColumnBlock, [&](int64_t block) {
      const int64_t j = block * kColumnBlock;
      const int64_t columns = std::min(size - j, kColumnBlock);
      const int m = static_cast<int>(rows), n = static_cast<int>(size);
      int64_t row = 0;
      if (part == Part::kLowerTriangle) {
        blas().dsyrk(CblasColMajor, CblasLower, CblasNoTrans, static_cast<int>(columns),
                     static_cast<int>(count), 1.0, block_a.data() + j, m, 1.0, sum.column(j) + j,
                     static_cast<int>(sum.rows()));
        row = j + columns;
      }
      if (row == rows) return;
      blas().dgemm(CblasColMajor, CblasNoTrans, CblasTrans, static_cast<int>(rows - row),
                   static_cast<int>(columns), static_cast<int>(count), 1.0, block_a.data() + row, m,
                   right.data() + j, n, 1.0, sum.column(j) + row, static_cast<int>(sum.rows()));
    });
  }
}

}  // namespace

void add_gram(ConstMatrixView rows, DoubleMatrix& sum) {
  add_products(rows, rows, Part::kLowerTriangle, sum);
}

void add_cross_gram(ConstMatrixView a, ConstMatrixView b, DoubleMatrix& sum) {
  add_products(a, b, Part::kAll, sum);
}

DoubleMatrix symmetric(const DoubleMatrix& lower_triangle) {
  DoubleMatrix out = lower_triangle;
  mirror_lower_triangle(out);
  return out;
}

}  // namespace neuronmm::compress
