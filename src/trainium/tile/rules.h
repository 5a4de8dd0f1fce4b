#pragma once
// The rules that one instruction must keep, with the sources of each (Trainium architecture guide
// for NKI, and the docstrings of nki.isa).

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "trainium/tile/checker.h"
#include "trainium/tile/program.h"

namespace neuronmm::tile {

using ReportViolation = std::function<void(BufferId buffer, std::string what)>;

// Memories, dtypes and engines: the same in every iteration.
void check_operands(const Program& program, const Instruction& instruction,
                    const ReportViolation& report);
// Shapes, bounds, banks and partitions at given loop values.
void check_extents(const Program& program, const Instruction& instruction, const Limits& limits,
                   std::span<const int64_t> loop_values, const ReportViolation& report);

}  // namespace neuronmm::tile
