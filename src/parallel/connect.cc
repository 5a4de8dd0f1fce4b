#include "parallel/connect.h"

#include <algorithm>
#include <cstdlib>

namespace neuronmm::parallel {

// Slurm sets SLURM_NTASKS in a batch script, too, which is a single process. PMIX_RANK is only set
// in what srun has started.
int launched_processes() {
  const auto count = [](const char* name) {
    const char* const text = std::getenv(name);
    return text == nullptr ? 1 : std::max(1, std::atoi(text));
  };
  const int of_slurm = std::getenv("PMIX_RANK") == nullptr ? 1 : count("SLURM_NTASKS");
  return std::max({count("OMPI_COMM_WORLD_SIZE"), count("PMI_SIZE"), of_slurm});
}

}  // namespace neuronmm::parallel
