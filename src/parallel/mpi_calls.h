#pragma once
// The parts that all files with MPI calls share: MPI's header, the lock around every call, the
// message tags, and the check of return codes. No other files include it.

// Leaves out Open MPI's and MPICH's old C++ classes.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mutex>
#include <string>

#include <mpi.h>

#include "parallel/communicator.h"

namespace neuronmm::parallel {

// MPI runs with MPI_THREAD_SERIALIZED: only one thread may call it at a time. The work's thread and
// the heartbeat's thread therefore take this lock around each call.
inline std::mutex& mpi_lock() {
  static std::mutex lock;
  return lock;
}

// The tags of messages: one for the work, one for signs of life.
inline constexpr int kWorkTag = 1, kLifeTag = 2;

// Throws ProcessLost if a call of MPI has failed.
inline void check_mpi(int code) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw ProcessLost("a message failed, its process or link is lost: " + std::string(text));
}

}  // namespace neuronmm::parallel
