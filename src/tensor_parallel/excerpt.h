#pragma once
// The bytes in which a process sends its columns of a row of logits to process 0: only the wanted
// values with the sums that make them probabilities, or all of its values.
//
// Sizes, for a row of which the k best values, n named values of this process and the log sum are
// wanted: 4 + 8 (n + k) bytes, plus 12 bytes for each block of columns (ops/log_sum.h), plus 8
// bytes if some value is not finite. A row of which all values are wanted has 4 bytes per column.

#include <span>
#include <vector>

#include "ops/log_sum.h"
#include "ops/wanted_logits.h"
#include "parallel/communicator.h"
#include "tensor_parallel/slices.h"

namespace neuronmm::tensor_parallel {

// Returns which columns of a row of `width` logits a process computes. They are whole blocks of the
// row's log sum.
Share vocabulary_share(int64_t width, int process, int processes);

// Returns the bytes for one row, of which `logits` holds `columns`. `block` is the number of
// columns in a block of the whole row's log sum.
parallel::Communicator::Bytes excerpt(std::span<const float> logits, const Share& columns,
                                      const ops::WantedLogits& wanted, int64_t block);

// Reads the bytes that excerpt() made in one process, row after row.
class ExcerptReader {
 public:
  explicit ExcerptReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  // Writes the values of the next row into `row`, at `columns`, and appends the sums of their
  // blocks to `sums`.
  void read(const Share& columns, const ops::WantedLogits& wanted, int64_t block,
            std::span<float> row, std::vector<ops::ExponentialSum>& sums);

 private:
  template <typename T>
  T next();
  std::span<const std::byte> bytes_;
};

}  // namespace neuronmm::tensor_parallel
