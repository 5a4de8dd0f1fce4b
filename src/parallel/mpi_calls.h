#pragma once
// What the files that use MPI share: its one header, and the lock around every call. Included by
// them alone.

// Open MPI's old C++ classes are not wanted.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mutex>
#include <string>

#include <mpi.h>

#include "parallel/communicator.h"

namespace neuronmm::parallel {

// MPI is asked for MPI_THREAD_SERIALIZED: the work's thread and that of the signs of life take
// turns.
inline std::mutex& mpi_lock() {
  static std::mutex lock;
  return lock;
}

// The tags of messages: of the work, and of signs of life.
inline constexpr int kWorkTag = 1, kLifeTag = 2;

inline void check_mpi(int code) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw ProcessLost("a message failed, its process or link is lost: " + std::string(text));
}

}  // namespace neuronmm::parallel
