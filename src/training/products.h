#pragma once
// Matrix products in the three shapes of training, Y = X·W, dX = dY·Wᵀ and dW = Xᵀ·dY, and those of
// attention. Each is a product of a left factor [M, K] and a right factor [K, N]. A factor is a
// packed copy of a matrix or of its transpose, for the kernels of src/cpu. Factors of double are
// plain copies.
//
// Factors of float may be rounded to bf16. Products and sums are fp32 in any case. An element of a
// product is one chain of sums in the order k = 0, 1, ..., so that its bits depend neither on the
// number of threads nor on the other rows.

#include <cstdint>

#include "cpu/kernels.h"
#include "training/memory.h"

namespace neuronmm::training {

// The type that factors of float are rounded to. Factors of double are never rounded.
enum class Precision { kFp32, kBf16 };
// Returns kBf16 if this CPU multiplies bf16 faster than fp32 (AMX, AVX512-BF16).
Precision fastest_precision();

// A left factor A [M, K].
template <typename T>
class LeftFactor {
 public:
  // Sets A = x.
  void pack(MatrixView<const T> x, Precision precision);
  // Sets A = xᵀ.
  void pack_transposed(MatrixView<const T> x, Precision precision);
  const Rows<T>& values() const { return values_; }

 private:
  Rows<T> values_;
};

// A right factor W [K, N].
template <typename T>
class RightFactor {
 public:
  // Sets W = w.
  void pack(MatrixView<const T> w, Precision precision);
  // Sets W = wᵀ.
  void pack_transposed(MatrixView<const T> w, Precision precision);
  bool empty() const { return values_.empty(); }
  void clear() { values_.clear(); }
  const Rows<T>& values() const { return values_; }

 private:
  Rows<T> values_;
};

template <>
class LeftFactor<float> {
 public:
  void pack(ConstMatrixView x, Precision precision);
  void pack_transposed(ConstMatrixView x, Precision precision);
  const cpu::PackedRows& rows() const { return rows_; }
  Precision precision() const { return precision_; }

 private:
  Pooled<float> memory_;
  cpu::PackedRows rows_;
  Precision precision_ = Precision::kFp32;
};

template <>
class RightFactor<float> {
 public:
  RightFactor() = default;
  ~RightFactor() { clear(); }
  RightFactor(const RightFactor&) = delete;
  RightFactor& operator=(const RightFactor&) = delete;
  void pack(ConstMatrixView w, Precision precision);
  void pack_transposed(ConstMatrixView w, Precision precision);
  bool empty() const { return matrix_.empty(); }
  void clear();
  const cpu::PackedMatrix& matrix() const { return matrix_; }

 private:
  void allocate(int64_t k, int64_t n, Precision precision);
  Pooled<uint32_t> memory_;  // holds the memory of matrix_ while that is empty
  cpu::PackedMatrix matrix_;
};

// Computes Y = A·W, or Y += A·W with `add`. If A has fewer columns than W has rows, the other rows
// of W are not used. Y may have fewer columns than W, whose other columns are then not used; their
// number is then a multiple of 32. All threads take part, unless they are busy.
template <typename T>
void multiply(const LeftFactor<T>& a, const RightFactor<T>& w, MatrixView<T> y, bool add = false);

}  // namespace neuronmm::training
