#pragma once
// This file lists the operands of an instruction, whatever its kind: what it reads and what it
// writes. Code that treats all instructions alike uses it: the checker and the printer of this
// folder, the simulator's interpreter and the emitter of NKI (nki/emitter.h). Nothing here can
// fail.

#include <string_view>
#include <vector>

#include "trainium/tile/program.h"

namespace neuronmm::tile {

// An operand of an instruction. The access belongs to the instruction, which must outlive it.
struct Operand {
  const Access* access;
  bool written;
  std::string_view role;  // The operand's name in program.h: "dst", "stationary", ...
};

// Returns the operands with the destination first. An accumulating matmul also reads its
// destination, which is in the list only once, as written. The index of a load is its last operand,
// with the role "index".
std::vector<Operand> operands_of(const Operation& operation);

std::string_view operation_name(const Operation& operation);  // NKI's name: "nc_matmul".

}  // namespace neuronmm::tile
