#pragma once
// Connects this process with the others that `mpirun`, `srun` or another MPI launcher has started
// with it. Programs call it once at their start.

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "parallel/communicator.h"

namespace neuronmm::parallel {

// Returns how many processes the launcher has started, from the variables that Open MPI, MPICH and
// Slurm set, or 1 without a launcher. It does not need MPI.
int launched_processes();

// Settings of the link.
struct LinkOptions {
  // How long a process may give no sign of life, in seconds, before it counts as lost. A thread
  // gives several signs per second while the process works. A link that stalls for a shorter time
  // only costs that time.
  double timeout_s = 60.0;
  // On one host, sums go through memory that all processes map. If false, they go through messages,
  // as between hosts.
  bool shared_memory = true;
  // Called with a message where no error can be returned. If a process is lost while all connect or
  // disconnect, the others hang in a call of MPI. After the time limit another thread then calls
  // this function, and the process ends with exit code 1.
  std::function<void(const std::string&)> on_fatal = [](const std::string&) {};
};

// Connects with the other processes; to be called once per process. Errors: a build without MPI, or
// MPI's own errors.
Result<std::unique_ptr<Communicator>> connect(const LinkOptions& options = {});

}  // namespace neuronmm::parallel
