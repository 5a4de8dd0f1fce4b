#pragma once
// The exception for work that cannot succeed any more because a helper process is gone. Callers
// that catch other exceptions and continue, such as the server, must stop at this one.

#include <stdexcept>

namespace neuronmm {

// Thrown by a model whose helper processes are gone for good: no later work of the model succeeds.
// The message says which helper is lost and what happened.
struct WorkersLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace neuronmm
