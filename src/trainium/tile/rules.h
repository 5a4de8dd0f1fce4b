#pragma once
// This file holds the rules that one instruction must keep, for the checker. Their sources are the
// Trainium architecture guide for NKI and the docstrings of nki.isa (documented).

#include <functional>
#include <span>
#include <string>

#include "trainium/tile/checker.h"
#include "trainium/tile/program.h"

namespace neuronmm::tile {

// Receives each broken rule, with the buffer that breaks it.
using ReportViolation = std::function<void(BufferId buffer, std::string what)>;

// Checks memories, dtypes and engines, which are the same in every iteration.
void check_operands(const Program& program, const Instruction& instruction,
                    const ReportViolation& report);
// Checks shapes, bounds, banks and partitions at the given loop values.
void check_extents(const Program& program, const Instruction& instruction, const Limits& limits,
                   std::span<const int64_t> loop_values, const ReportViolation& report);

}  // namespace neuronmm::tile
