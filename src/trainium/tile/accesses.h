#pragma once
// The operands of an instruction, whatever its kind: what it reads and what it writes.

#include <string_view>
#include <vector>

#include "trainium/tile/program.h"

namespace neuronmm::tile {

struct Operand {
  const Access* access;
  bool written;
  std::string_view role;  // "dst", "stationary", ... as program.h names it
};

// The destination first. An accumulating matmul reads its destination too.
std::vector<Operand> operands_of(const Operation& operation);

std::string_view operation_name(const Operation& operation);  // "nc_matmul", as NKI calls it

}  // namespace neuronmm::tile
