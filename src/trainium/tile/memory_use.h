#pragma once
// How much SBUF and PSUM a program needs. A buffer occupies its memory, all copies, from its
// Allocate to the last use in the same loop body; with two or more copies to the end of that body,
// since the next iteration is brought in early. Buffers that are never live together share memory,
// as a compiler's allocator would have them do.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainium/tile/program.h"

namespace neuronmm::tile {

struct MemoryShare {
  BufferId buffer = -1;
  int64_t amount = 0;  // SBUF: bytes per partition; PSUM: banks. All copies together.
};

struct MemoryUse {
  int64_t peak = 0;
  std::vector<MemoryShare> live;  // at the peak, largest first
};

// Bytes per partition. `free_bytes`, if not empty: what one instance of each buffer takes, in place
// of what it was declared with.
MemoryUse sbuf_use(const Program& program, std::span<const int64_t> free_bytes = {});
MemoryUse psum_use(const Program& program, int64_t bank_bytes = 2048);  // banks

}  // namespace neuronmm::tile
