// A library to preload with LD_PRELOAD. It makes chosen allocations of a program fail, as if the
// system had no memory for them. The tests choose them (allocation_faults.h).

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/allocation_faults.h"

// The allocator of the C library, under the names that it keeps for replacements.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
}

namespace {

using neuronmm::AllocationFaults;

AllocationFaults* faults = nullptr;

[[gnu::constructor]] void map_faults() {
  const char* const path = std::getenv("NEURONMM_ALLOCATIONS");
  const int file = path == nullptr ? -1 : open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  void* const memory =
      mmap(nullptr, sizeof(AllocationFaults), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory != MAP_FAILED) faults = static_cast<AllocationFaults*>(memory);
}

bool fails() {
  if (faults == nullptr) return false;
  const long call = ++faults->calls;
  const long first = faults->first, every = faults->every;
  const bool chosen = first > 0 && call >= first && call < first + faults->count;
  if (!chosen && (every == 0 || call % every != 0)) return false;
  errno = ENOMEM;
  return true;
}

}  // namespace

extern "C" {
void* malloc(size_t size) { return fails() ? nullptr : __libc_malloc(size); }
void* calloc(size_t count, size_t size) { return fails() ? nullptr : __libc_calloc(count, size); }
void* realloc(void* memory, size_t size) {
  return fails() ? nullptr : __libc_realloc(memory, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  return fails() ? nullptr : __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, size_t alignment, size_t size) {
  if (fails()) return ENOMEM;
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}
}
