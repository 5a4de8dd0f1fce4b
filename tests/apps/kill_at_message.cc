// A library that killed_process_test.cc preloads. It kills the last of several processes when that
// process sends a chosen message. A test can so hit every phase of a command, however fast the
// machine is. Only messages with tag 1 count; higher tags are signs of life.
//
//   KILL_AT_MESSAGE=N    kills the process at its N-th message; 0 kills it when MPI starts
//   COUNT_MESSAGES=FILE  writes the number of messages to the file instead

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

void kill_if_chosen(long message) {
  const char* const at = std::getenv("KILL_AT_MESSAGE");
  if (at != nullptr && std::atol(at) == message && is_last()) std::raise(SIGKILL);
}

// Writes the number of messages when the process exits.
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
  kill_if_chosen(0);
  return PMPI_Init_thread(argc, argv, required, provided);
}

extern "C" int MPI_Isend(const void* bytes, int count, MPI_Datatype type, int to, int tag,
                         MPI_Comm comm, MPI_Request* request) {
  if (tag == 1) kill_if_chosen(++sent);
  return PMPI_Isend(bytes, count, type, to, tag, comm, request);
}
