#pragma once
// Makes the trace that a tile program would leave: its loops are unrolled, and every instruction is
// a record. Tests compare the two simulators with it.

#include <cstddef>
#include <string>
#include <vector>

#include "trainium/tile/program.h"
#include "trainium/trace/tensor_memory.h"

namespace neuronmm::trace {

std::vector<std::byte> trace_of(const tile::Program& program);

// Returns the trace's name of a buffer. Buffers of the same name differ by their numbers.
std::string name_of(const tile::Program& program, tile::BufferId id);

// Returns limits of as many tensors for each buffer as the buffer has copies.
BufferLimits buffer_limits_of(const tile::Program& program);

}  // namespace neuronmm::trace
