#pragma once
// The trace that a tile program would leave: its loops unrolled, every instruction a record.

#include <cstddef>
#include <string>
#include <vector>

#include "trainium/tile/program.h"
#include "trainium/trace/tensor_memory.h"

namespace neuronmm::trace {

std::vector<std::byte> trace_of(const tile::Program& program);

// What the trace calls a buffer: buffers of one name are told apart by their numbers.
std::string name_of(const tile::Program& program, tile::BufferId id);

// As many tensors of each buffer at a time as the program's buffers have copies.
Rotation rotation_of(const tile::Program& program);

}  // namespace neuronmm::trace
