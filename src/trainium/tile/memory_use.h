#pragma once
// This file computes how much SBUF and PSUM a program needs, for the checker, the simulator and the
// tuner. A buffer occupies its memory, with all copies, from its Allocate to its last use in the
// same loop body. A buffer with two or more copies keeps its memory to the end of that body,
// because the next iteration is brought in early. Buffers that are never live together share
// memory, as they would with a compiler's allocator.

#include <cstdint>
#include <span>
#include <vector>

#include "trainium/tile/program.h"

namespace neuronmm::tile {

// The memory that one buffer occupies.
struct MemoryShare {
  BufferId buffer = -1;
  // All copies together. The unit is bytes per partition for SBUF and banks for PSUM.
  int64_t amount = 0;
};

// The largest use of one memory at any point of a program.
struct MemoryUse {
  int64_t peak = 0;
  std::vector<MemoryShare> live;  // The buffers that are live at the peak, largest first.
};

// Returns the use of SBUF in bytes per partition. If `free_bytes` is not empty, it gives the bytes
// of one instance of each buffer, which replace the declared ones.
MemoryUse sbuf_use(const Program& program, std::span<const int64_t> free_bytes = {});
MemoryUse psum_use(const Program& program, int64_t bank_bytes = 2048);  // In banks.

}  // namespace neuronmm::tile
