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

// How a process makes its own backend of a text that process 0 sends, and one that is shared of
// that: as process 0 does, whose measure_machine() waits for the others'.
using MakeOwn = std::function<Result<std::unique_ptr<ops::Backend>>(const std::string& settings)>;
using ShareIt = std::function<std::unique_ptr<ops::Backend>(std::unique_ptr<ops::Backend> own)>;

// Obeys until process 0 says that it is over. Between orders it sleeps. Errors of models reach
// process 0, which reports them.
void follow(parallel::Communicator& communicator, const MakeOwn& make_own, const ShareIt& share);

}  // namespace neuronmm::tensor_parallel
