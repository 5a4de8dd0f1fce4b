#pragma once
// The part of an MLP that a process computes, in one of the layouts of plan.h. All processes apply
// their parts together, and each gets the complete output.

#include <memory>

#include "ops/backend.h"
#include "parallel/communicator.h"
#include "tensor_parallel/plan.h"

namespace neuronmm::tensor_parallel {

// Makes this process's part. `backend` must pack copies of weights, because the pieces that are cut
// out of `weight` do not outlive this call.
std::unique_ptr<ops::Mlp> make_shared_mlp(const ops::Backend& backend,
                                          parallel::Communicator& communicator, parallel::Wire wire,
                                          const ops::MlpWeight& weight, MlpLayout layout);

// Sums y over all processes, in place. The rows of y may have a stride.
void sum_matrix(parallel::Communicator& communicator, parallel::Wire wire, MutableMatrixView y);

}  // namespace neuronmm::tensor_parallel
