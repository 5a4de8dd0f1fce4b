#pragma once
// The work of all processes except process 0: each opens the models that process 0 opens and
// computes its part of their forward passes. apps/processes.cc calls follow() in these processes.

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "ops/backend.h"
#include "parallel/communicator.h"

namespace neuronmm::tensor_parallel {

// MakeOwn makes the backend of this process alone, from a text that process 0 sends. ShareIt makes
// the backend of tensor parallelism from it. Both must do what process 0 does, because its
// measure_machine() waits for the calls of the other processes.
using MakeOwn = std::function<Result<std::unique_ptr<ops::Backend>>(const std::string& settings)>;
using ShareIt = std::function<std::unique_ptr<ops::Backend>(std::unique_ptr<ops::Backend> own)>;

// Carries out the orders of process 0 (order.h) until the order that ends the program. The process
// sleeps between orders. Errors of models are sent to process 0, which reports them.
void follow(parallel::Communicator& communicator, const MakeOwn& make_own, const ShareIt& share);

}  // namespace neuronmm::tensor_parallel
