#pragma once
// This file computes how much memory the names of the emitted source hold. Python has one scope per
// function, so a buffer lives until its name is assigned again. It lives beyond its last use and,
// in the next iteration, together with its successor. A compiler sees when a buffer is done, but a
// tracing simulator sees only the names. The emitter uses these functions to decide whether and
// where to release buffers.

#include <cstdint>
#include <string>
#include <vector>

#include "trainium/tile/program.h"

namespace neuronmm::nki {

// Returns the most SBUF, in bytes per partition, that buffers with these names (by BufferId) hold
// together if none is released.
int64_t held_sbuf_bytes(const tile::Program& program, const std::vector<std::string>& names);

// Returns, for every node of `body`, the SBUF buffers that are allocated in `body` and last used by
// this node.
std::vector<std::vector<tile::BufferId>> last_uses(const tile::Program& program,
                                                   const std::vector<tile::Node>& body);

}  // namespace neuronmm::nki
