#pragma once
// How a process finds the others: started by `mpirun`, `srun` or another launcher of MPI.

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "parallel/communicator.h"

namespace neuronmm::parallel {

// How many processes the launcher says it has started, by the variables that Open MPI, MPICH and
// Slurm set; 1 without a launcher. Nothing of MPI is needed for that.
int launched_processes();

struct LinkOptions {
  // How long a process may give no sign of life (once a second, beside its work) before it counts
  // as lost. A link that stalls for a shorter time only costs that time.
  double timeout_s = 60.0;
  // On one host sums go through memory that all map. Off: messages, as between hosts.
  bool shared_memory = true;
  // Told what is wrong where no error can be returned: a process that is lost while all meet or
  // part leaves the others in a call of MPI that does not end. After the time limit this is called,
  // by another thread, and the process ends with 1.
  std::function<void(const std::string&)> tell = [](const std::string&) {};
};

// Called once per process, at its start. Error: a build without MPI; MPI's own.
Result<std::unique_ptr<Communicator>> connect(const LinkOptions& options = {});

}  // namespace neuronmm::parallel
