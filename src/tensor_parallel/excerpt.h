#pragma once
// What processes send of their columns of a row of logits: those that are wanted, with the sums
// that make them probabilities, or all.
//
// A row for which k best are wanted, n named ones of which are this process's, and the log sum, has
// 4 + 8 (n + k) bytes and 12 more per block of columns (ops/log_sum.h); 8 more where some value is
// not finite. A whole row has 4 per column.

#include <span>
#include <vector>

#include "ops/log_sum.h"
#include "ops/wanted_logits.h"
#include "parallel/communicator.h"
#include "tensor_parallel/slices.h"

namespace neuronmm::tensor_parallel {

// Which columns of a row of `width` a process has: whole blocks of its log sum.
Share vocabulary_share(int64_t width, int process, int processes);

// Of logits[columns]. `block`: of the whole row's log sum.
parallel::Communicator::Bytes excerpt(std::span<const float> logits, const Share& columns,
                                      const ops::WantedLogits& wanted, int64_t block);

// Reads what excerpt() made for one row after the other of one process.
class ExcerptReader {
 public:
  explicit ExcerptReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  // Puts the values of those columns into the row; the sums of their blocks follow `sums`.
  void read(const Share& columns, const ops::WantedLogits& wanted, int64_t block,
            std::span<float> row, std::vector<ops::ExponentialSum>& sums);

 private:
  template <typename T>
  T next();
  std::span<const std::byte> bytes_;
};

}  // namespace neuronmm::tensor_parallel
