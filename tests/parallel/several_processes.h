#pragma once
// Helpers of tests that start a program several times with mpirun, as a person does on one machine.

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include <gtest/gtest.h>

namespace neuronmm::parallel {

// Returns why such tests cannot run on this machine, or an empty string if they can.
inline std::string why_no_mpirun() {
  if (std::system("mpirun --version >/dev/null 2>&1") != 0)
    return "no mpirun: tools/install_dependencies.sh build";
  return "";
}

// A folder for Open MPI's files, which is removed at the end of the test program. By default all
// runs of a user share a folder, and one of two that begin together may fail to make it.
class SessionFolder {
 public:
  SessionFolder() : path_(std::filesystem::temp_directory_path() / "neuronmm_mpi_XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) path_ = std::filesystem::temp_directory_path();
  }
  ~SessionFolder() {
    std::error_code ignored;
    if (path_ != std::filesystem::temp_directory_path())
      std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Returns the start of a command line that runs a program in several processes. A test's machine
// often has fewer cores than processes and runs tests as root. Processes are not bound to cores,
// because tests run at the same time. AddressSanitizer's leak check is off, because Open MPI never
// frees some memory.
//
// With --foreground, `timeout` passes a signal to mpirun only. Without it, mpirun would get the
// signal a second time through the process group and sometimes end without telling its processes.
// An mpirun that does not end within 30 s of the signal is killed.
inline std::string mpirun(int processes) {
  static const SessionFolder session;
  return "timeout --foreground --kill-after=30 300 env OMPI_ALLOW_RUN_AS_ROOT=1 "
         "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
         "ASAN_OPTIONS=detect_leaks=0 mpirun "
         "--oversubscribe --bind-to none --mca btl_base_warn_component_unused 0 "
         "--mca orte_tmpdir_base " +
         session.path() + " -n " + std::to_string(processes) + " ";
}

}  // namespace neuronmm::parallel
