#pragma once
// A mixture of experts whose experts are shared out to processes. Every process has the router and
// whole experts, contiguous ones, and adds up their outputs; the sums of all processes are the
// output.

#include <memory>

#include "ops/backend.h"
#include "parallel/communicator.h"
#include "tensor_parallel/slices.h"

namespace neuronmm::tensor_parallel {

// Returns the experts of a process. Processes differ by at most one expert, and may have none.
Share experts_of(const ops::MixtureWeight& weight, int process, int processes);

// Makes this process's part. All processes apply their parts together, and each gets the complete
// output. They choose the same experts, because each computes the router with the same numbers in
// the same order. `backend` must pack copies of weights.
std::unique_ptr<ops::Mlp> make_shared_mixture(const ops::Backend& backend,
                                              parallel::Communicator& communicator,
                                              parallel::Wire wire,
                                              const ops::MixtureWeight& weight);

}  // namespace neuronmm::tensor_parallel
