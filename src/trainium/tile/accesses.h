#pragma once
// This file lists the operands of an instruction, whatever its kind: what it reads and what it
// writes. Code that treats all instructions alike uses it, such as the checker, the printer and the
// timing model.

#include <string_view>
#include <vector>

#include "trainium/tile/program.h"

namespace neuronmm::tile {

// An operand of an instruction. The access belongs to the instruction.
struct Operand {
  const Access* access;
  bool written;
  std::string_view role;  // The operand's name in program.h: "dst", "stationary", ...
};

// Returns the operands with the destination first. An accumulating matmul also reads its
// destination.
std::vector<Operand> operands_of(const Operation& operation);

std::string_view operation_name(const Operation& operation);  // NKI's name: "nc_matmul".

}  // namespace neuronmm::tile
