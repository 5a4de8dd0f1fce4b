#pragma once
// What all processes but the first do: they open the models that process 0 opens, and compute their
// part of its passes.

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "ops/backend.h"
#include "parallel/communicator.h"

namespace neuronmm::tensor_parallel {

// The backend of make_backend() that process 0 has made of the same text.
using MakeBackend =
    std::function<Result<std::unique_ptr<ops::Backend>>(const std::string& settings)>;

// Obeys until process 0 says that it is over. Between orders it sleeps. Errors of models reach
// process 0, which reports them.
void follow(parallel::Communicator& communicator, const MakeBackend& make_backend);

}  // namespace neuronmm::tensor_parallel
