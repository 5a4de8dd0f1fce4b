#pragma once
// What the names of the source hold on to. Python has one scope per function, so a buffer lives
// until its name is given again: past its last use, and beside its successor in the next iteration.
// A compiler sees when a buffer is done; a tracing simulator only sees the names.

#include <cstdint>
#include <string>
#include <vector>

#include "trainium/tile/program.h"

namespace neuronmm::nki {

// The most SBUF, in bytes per partition, that buffers of these names (by BufferId) hold together if
// none is let go.
int64_t held_sbuf_bytes(const tile::Program& program, const std::vector<std::string>& names);

// For every node of `body`, the SBUF buffers allocated in `body` that are last used there.
std::vector<std::vector<tile::BufferId>> last_uses(const tile::Program& program,
                                                   const std::vector<tile::Node>& body);

}  // namespace neuronmm::nki
