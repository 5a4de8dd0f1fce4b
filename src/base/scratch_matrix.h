#pragma once
// Matrices for the activations of a forward pass. Every layer makes and drops matrices of the same
// sizes, so their memory is kept and reused.

#include <cstdint>

#include "base/tensor.h"

namespace neuronmm {

// An fp32 matrix [rows, columns] with contiguous rows that owns its memory, which is not
// initialised. Memory from 256 KiB on comes from a pool of the process, in huge pages where the
// system has them. Any thread may make or drop a matrix. Throws std::bad_alloc if there is no
// memory.
class ScratchMatrix {
 public:
  ScratchMatrix(int64_t rows, int64_t columns);
  ~ScratchMatrix();
  ScratchMatrix(const ScratchMatrix&) = delete;
  ScratchMatrix& operator=(const ScratchMatrix&) = delete;

  int64_t rows() const { return view_.rows; }
  int64_t columns() const { return view_.columns; }
  float* data() const { return view_.data; }
  MutableMatrixView view() const { return view_; }

 private:
  MutableMatrixView view_;
  int64_t pooled_bytes_ = 0;  // the size of the pool's block, or 0 for memory of the heap
};

}  // namespace neuronmm
