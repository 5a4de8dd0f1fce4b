#pragma once
// The intermediate matrices [M, r], here called strips, that gate and up read in the layout
// kGatherStrips (plan.h). With two factors a strip is X·U. With pivots it is the pivots' values
// plus the other inputs times the map. Each process computes some columns of every strip, and one
// collective gathers the columns of all strips. shared_mlp.cc uses this class.

#include <memory>
#include <vector>

#include "ops/backend.h"
#include "parallel/communicator.h"
#include "tensor_parallel/slices.h"

namespace neuronmm::tensor_parallel {

class GatheredStrips {
 public:
  // Packs this process's columns of each first factor with `backend`. The strips have the order of
  // strip_ranks() (plan.h).
  GatheredStrips(const ops::Backend& backend, parallel::Communicator& communicator,
                 parallel::Wire wire, const ops::MlpWeight& weight);

  // Returns the complete strips of x [M, H]. All processes call it together.
  std::vector<Matrix> gather(ConstMatrixView x) const;
  // Returns the index of the strip that gate (0) or up (1) reads, or -1 if it reads x.
  int strip_of(size_t which) const { return strip_of_[which]; }

 private:
  // The columns of one strip that this process computes.
  struct Strip {
    int64_t rank = 0;
    // The pivots among this process's columns, and the inputs that are no pivots. Both are empty if
    // the strip is X·U.
    std::vector<int32_t> pivots, others;
    // U or the map. Null if this process has no column, because there are more processes than
    // columns.
    std::unique_ptr<ops::Linear> first;
    // Computes y = x[pivots] + x[others] · map.
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
