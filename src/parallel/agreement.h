#pragma once
// Checks that all processes of a run agree on versions, flags and files before they work together,
// so that they do not wait for each other with different work.
//
// A program that mpirun has started calls both functions when it connects (apps/processes.cc).
// Tensor parallelism (src/tensor_parallel) and the helpers of a compression
// (compress/helper_process.h) call agree() when they open a model and first_error_of_all() after
// every step that may fail in one process.
//
// Both functions are collectives: every process must call them, and a process waits until all
// others have done so. If a process is lost, they throw ProcessLost (communicator.h).

#include <span>
#include <string>

#include "base/result.h"
#include "parallel/communicator.h"

namespace neuronmm::parallel {

// Something that must be equal in all processes.
struct Fact {
  std::string name;   // its name in messages, "the version"
  std::string value;  // any text; compared byte by byte
};

// Compares facts. Every process must pass facts with the same names in the same order. All
// processes get the same result. The error names the first fact in which a process differs from
// process 0, with both values.
Status agree(Communicator& communicator, std::span<const Fact> facts);

// Returns ok if the status of every process is ok. Otherwise returns the error of the lowest
// process that has one; the message names the process unless it is process 0. The result is the
// same in all processes. It has the kind kFailure, whatever the kind of the error was.
Status first_error_of_all(Communicator& communicator, const Status& status);

}  // namespace neuronmm::parallel
