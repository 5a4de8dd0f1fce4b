#pragma once
// Slices of weights: the rows or columns of a stored matrix that one process computes with. Rows of
// a stored matrix are out-features, and columns are in-features (ops/weights.h).

#include <cstddef>
#include <list>
#include <memory>
#include <vector>

#include "base/coded_values.h"
#include "ops/quantize.h"
#include "ops/weights.h"
#include "parallel/communicator.h"

namespace neuronmm::tensor_parallel {

using parallel::Share;

// Returns a process's share of [0, count). Shares consist of whole units, except that the last unit
// may be shorter.
Share share_in_units(int64_t count, int64_t unit, int process, int processes);

// Return views of the same memory: some rows of a weight, or some elements of a vector.
ops::WeightView rows_of(const ops::WeightView& weight, const Share& rows);
TensorView elements_of(const TensorView& vector, const Share& elements);
// Returns the part of a dense layer that computes these columns of its output.
ops::LinearWeight some_outputs(ops::LinearWeight weight, const Share& columns);

// Copies columns of weights and owns the copies.
class ColumnCopies {
 public:
  // Returns a view of a copy of some columns. For a rounded weight, columns.first must be a
  // multiple of ops::kQuantGroup, and columns.end() must be a multiple, too, or the end of the
  // rows.
  ops::WeightView columns_of(const ops::WeightView& weight, const Share& columns);

 private:
  TensorView copy(const TensorView& matrix, int64_t row_bytes, int64_t first_byte, int64_t bytes,
                  int64_t columns);
  ops::WeightView foreign_columns(const TensorView& matrix, const Share& columns);

  std::list<std::vector<std::byte>> storage_;
  std::list<ops::QuantizedWeight> rounded_;
  std::list<std::unique_ptr<CodedValues>> coded_;
};

}  // namespace neuronmm::tensor_parallel
