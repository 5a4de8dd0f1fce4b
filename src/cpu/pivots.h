#pragma once
// The packed pivots of a narrow input or output (ops/weights.h): one product with their map, and
// the gathering or scattering of columns. No kernel is needed. For an input, the product adds to
// the pivots' columns. For an output, its left factor is a part of the result.

#include <cstdint>
#include <vector>

#include "cpu/matmul.h"

namespace neuronmm::cpu {

// The pivots of one layer's input or output.
class PackedPivots {
 public:
  PackedPivots() = default;
  explicit PackedPivots(const ops::Pivots& pivots);

  bool empty() const { return index_.empty(); }
  int64_t rank() const { return std::ssize(index_); }
  int64_t features() const { return rank() + std::ssize(others_); }
  const PackedMatrix& map() const { return map_; }

  // Begins t [M, r] = x[pivots] + x[others] · map for x [M, n] and returns the product that
  // completes it. `t` gets the first term, `storage` the packed columns of the others.
  Product narrow(const Kernels& kernels, ConstMatrixView x, Buffer<float>& storage,
                 MutableMatrixView t) const;
  // Assembles y [M, n] from z [M, r], the pivots' columns, and rest [M, n - r], the other columns.
  void widen(ConstMatrixView z, ConstMatrixView rest, MutableMatrixView y) const;

 private:
  std::vector<int32_t> index_, others_;
  PackedMatrix map_;
};

}  // namespace neuronmm::cpu
