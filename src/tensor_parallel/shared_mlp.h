#pragma once
// One process's part of an MLP, in one of the layouts of plan.h. Its result is complete.

#include <memory>

#include "ops/backend.h"
#include "parallel/communicator.h"
#include "tensor_parallel/plan.h"

namespace neuronmm::tensor_parallel {

// `backend` packs copies of its weights: what is cut out of `weight` is gone afterwards.
std::unique_ptr<ops::Mlp> make_shared_mlp(const ops::Backend& backend,
                                          parallel::Communicator& communicator, parallel::Wire wire,
                                          const ops::MlpWeight& weight, MlpLayout layout);

// Sums y over the processes; y may have a stride.
void sum_matrix(parallel::Communicator& communicator, parallel::Wire wire, MutableMatrixView y);

}  // namespace neuronmm::tensor_parallel
