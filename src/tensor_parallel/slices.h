#pragma once
// The part of a weight that one process computes with. Rows of a stored matrix are out-features,
// columns in-features (ops/weights.h).

#include <cstddef>
#include <list>
#include <vector>

#include "ops/weights.h"
#include "parallel/communicator.h"

namespace neuronmm::tensor_parallel {

using parallel::Share;

// Process i's share of [0, count), in whole units but for the last one, which may be shorter.
Share share_in_units(int64_t count, int64_t unit, int process, int processes);

// A view on the same memory.
ops::WeightView rows_of(const ops::WeightView& weight, const Share& rows);
TensorView elements_of(const TensorView& vector, const Share& elements);
// The part of a dense layer that computes these columns of its output.
ops::LinearWeight some_outputs(ops::LinearWeight weight, const Share& columns);

// Copies of columns, which live as long as this does.
class ColumnCopies {
 public:
  // Of a rounded weight, columns.first is a multiple of ops::kQuantGroup, and columns.end() is too
  // or is the end of the rows.
  ops::WeightView columns_of(const ops::WeightView& weight, const Share& columns);

 private:
  TensorView copy(const TensorView& matrix, int64_t row_bytes, int64_t first_byte, int64_t bytes,
                  int64_t columns);

  std::list<std::vector<std::byte>> storage_;
};

}  // namespace neuronmm::tensor_parallel
