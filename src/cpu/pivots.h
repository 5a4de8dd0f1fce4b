#pragma once
// The pivots of a narrow input or output (ops/weights.h), packed: one product with their map, and
// the gather or scatter beside it. No kernel of its own is needed: on the way in the product adds
// to the pivots' columns, on the way out its left factor is part of the result.

#include <cstdint>
#include <vector>

#include "cpu/matmul.h"

namespace neuronmm::cpu {

class PackedPivots {
 public:
  PackedPivots() = default;
  explicit PackedPivots(const ops::Pivots& pivots);

  bool empty() const { return index_.empty(); }
  int64_t rank() const { return std::ssize(index_); }
  int64_t features() const { return rank() + std::ssize(others_); }
  const PackedMatrix& map() const { return map_; }

  // What is left to compute of t [M, r] = x[pivots] + x[others] · map for x [M, n]: t holds the
  // first term, `storage` the others' columns, packed.
  Product narrow(const Kernels& kernels, ConstMatrixView x, Buffer<float>& storage,
                 MutableMatrixView t) const;
  // y [M, n] from z [M, r], the pivots' columns, and rest [M, n - r], the others'.
  void widen(ConstMatrixView z, ConstMatrixView rest, MutableMatrixView y) const;

 private:
  std::vector<int32_t> index_, others_;
  PackedMatrix map_;
};

}  // namespace neuronmm::cpu
