// Replaces mpi_communicator.cc if CMake did not find MPI.

#include "parallel/connect.h"

namespace neuronmm::parallel {

Result<std::unique_ptr<Communicator>> connect(const LinkOptions& /*options*/) {
  return fail(
      "started as one of {} processes, but this build has no MPI: configure it where "
      "libopenmpi-dev or libmpich-dev is installed (-DNEURONMM_MPI=ON), or start it once",
      launched_processes());
}

}  // namespace neuronmm::parallel
