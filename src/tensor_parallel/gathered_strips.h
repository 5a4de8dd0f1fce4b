#pragma once
// The strips that gate and up read, [M, r]: X·U of two factors, or the pivots' values, to which a
// map adds what the other inputs are worth. Each process computes some columns of every strip, and
// all are gathered at once.

#include <memory>
#include <vector>

#include "ops/backend.h"
#include "parallel/communicator.h"
#include "tensor_parallel/slices.h"

namespace neuronmm::tensor_parallel {

class GatheredStrips {
 public:
  // In the order of plan.h's strip_ranks(). `backend` packs copies.
  GatheredStrips(const ops::Backend& backend, parallel::Communicator& communicator,
                 parallel::Wire wire, const ops::MlpWeight& weight);

  std::vector<Matrix> gather(ConstMatrixView x) const;
  // Which of them gate (0) or up (1) reads; -1: none.
  int strip_of(size_t which) const { return strip_of_[which]; }

 private:
  // This process's columns of one strip.
  struct Strip {
    int64_t rank = 0;
    std::vector<int32_t> pivots, others;  // of this process's columns, and of all; empty with U
    std::unique_ptr<ops::Linear> first;   // U or the map; null: more processes than columns
    // y = x[pivots] + x[others] · map.
    void fold(ConstMatrixView x, MutableMatrixView y) const;
  };

  void add(const ops::WeightView& first, const ops::Pivots& pivots);
  std::vector<float> columns_here(ConstMatrixView x) const;
  Share columns(const Strip& strip, int process) const;

  const ops::Backend& backend_;
  parallel::Communicator& communicator_;
  const parallel::Wire wire_;
  std::vector<Strip> strips_;
  int strip_of_[2] = {-1, -1};
};

}  // namespace neuronmm::tensor_parallel
