#pragma once
// The end of computing, for whoever goes on after other exceptions.

#include <stdexcept>

namespace neuronmm {

// Thrown by work of a model whose helpers are gone for good, as another process is: no such work
// succeeds any more. The message says who is lost and what has happened.
struct WorkersLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace neuronmm
