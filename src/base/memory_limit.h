#pragma once
// Tells how much memory this process may use and how much it uses. `neuronmm serve` chooses the
// default of --memory by it, and states the numbers at its start.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace neuronmm {

// A limit for all processes of a container.
struct MemoryLimit {
  int64_t bytes = 0;
  std::string file;  // the file that sets the limit, for messages
};

// Returns the smallest memory limit of the control groups (version 1 or 2) that this process is in,
// or nothing if none of them has a limit. Groups are nested, and each limits all groups in it.
// `root` is the root of the file system; tests pass a folder.
std::optional<MemoryLimit> container_memory_limit(const std::filesystem::path& root = "/");

// Returns the memory of the machine in bytes, or INT64_MAX if the system does not say.
int64_t machine_memory_bytes();

// The memory of this process in bytes, as Linux counts it.
struct MemoryUse {
  int64_t anonymous = 0;      // resident memory that only this process can hold
  int64_t mapped = 0;         // resident pages of files, which the system can drop and read again
  int64_t data = 0;           // private writable address space, used or not; RLIMIT_DATA limits it
  int64_t address_space = 0;  // all of it; RLIMIT_AS limits it
};
MemoryUse memory_use();

// Returns how many bytes this process may still map, or INT64_MAX if nothing limits it (`ulimit -v`
// and `ulimit -d`).
int64_t mappable_bytes();

// Makes allocations fail from now on if they could raise the anonymous memory of this process above
// `bytes`. Address space counts when it is allocated, even before it is used. `new_threads` is the
// number of threads that will still be started. Their stacks are allowed in addition, because
// little of a stack is ever used.
void limit_anonymous_memory(int64_t bytes, int64_t new_threads);

}  // namespace neuronmm
