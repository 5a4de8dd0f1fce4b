#pragma once
// How a process finds the others: started by `mpirun`, `srun` or another launcher of MPI.

#include <memory>

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
};

// Called once per process, at its start. Error: a build without MPI; MPI's own.
Result<std::unique_ptr<Communicator>> connect(const LinkOptions& options = {});

}  // namespace neuronmm::parallel
