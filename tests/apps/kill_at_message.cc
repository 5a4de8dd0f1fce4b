// A library to preload: the last process of several is killed at a message of its choice, so that a
// test meets every phase of a command however fast or slow the machine is.
//   KILL_AT_MESSAGE=N    at its N-th message of work (tags above 1 are signs of life); 0: as MPI
//   starts COUNT_MESSAGES=FILE  instead: writes how many there were

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

namespace {

long sent = 0;

bool is_last() {
  const char* const process = std::getenv("OMPI_COMM_WORLD_RANK");
  const char* const processes = std::getenv("OMPI_COMM_WORLD_SIZE");
  return process != nullptr && processes != nullptr &&
         std::atoi(process) + 1 == std::atoi(processes);
}

void reach(long message) {
  const char* const at = std::getenv("KILL_AT_MESSAGE");
  if (at != nullptr && std::atol(at) == message && is_last()) std::raise(SIGKILL);
}

struct Counter {
  ~Counter() {
    const char* const file = std::getenv("COUNT_MESSAGES");
    if (file == nullptr || sent == 0 || !is_last()) return;
    if (std::FILE* const out = std::fopen(file, "w")) {
      std::fprintf(out, "%ld\n", sent);
      std::fclose(out);
    }
  }
} counter;

}  // namespace

extern "C" int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  reach(0);
  return PMPI_Init_thread(argc, argv, required, provided);
}

extern "C" int MPI_Isend(const void* bytes, int count, MPI_Datatype type, int to, int tag,
                         MPI_Comm comm, MPI_Request* request) {
  if (tag == 1) reach(++sent);
  return PMPI_Isend(bytes, count, type, to, tag, comm, request);
}
