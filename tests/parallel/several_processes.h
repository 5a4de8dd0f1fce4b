#pragma once
// Starts a program several times, as a person does on one machine.

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

namespace neuronmm::parallel {

// Why such tests cannot run here; empty if they can.
inline std::string why_no_mpirun() {
  if (std::system("mpirun --version >/dev/null 2>&1") != 0) return "there is no mpirun";
  return "";
}

// More processes than cores and root are what a test's machine has. Nothing is bound to a core:
// tests run side by side. A build with AddressSanitizer would blame us for what Open MPI never
// frees. In the foreground `timeout` passes a signal on to mpirun alone; else it sends it to their
// group as well, and mpirun, which then has it twice, at times ends without a word to its
// processes.
inline std::string mpirun(int processes) {
  return "timeout --foreground 300 env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
         "ASAN_OPTIONS=detect_leaks=0 mpirun "
         "--oversubscribe --bind-to none --mca btl_base_warn_component_unused 0 -n " +
         std::to_string(processes) + " ";
}

}  // namespace neuronmm::parallel
