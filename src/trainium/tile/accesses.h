#pragma once
// This file lists the operands of an instruction, whatever its kind: what it reads and what it
// writes. Code that treats all instructions alike uses it: the checker and the printer of this
// folder, the simulator's interpreter, the emitter of NKI (nki/emitter.h) and the passes that
// rewrite programs. Nothing here can fail.

#include <string_view>
#include <variant>
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

// Calls rewrite(access) for every access of an operation, including the index of a load.
template <typename Rewrite>
void rewrite_accesses(Operation& operation, const Rewrite& rewrite) {
  std::visit(
      [&rewrite](auto& op) {
        rewrite(op.dst);
        if constexpr (requires { op.src; }) {
          rewrite(op.src);
          for (Access& index : op.src.index) rewrite(index);
        }
        if constexpr (requires { op.a; }) rewrite(op.a), rewrite(op.b);
        if constexpr (requires { op.scale; }) rewrite(op.scale), rewrite(op.addend);
        if constexpr (requires { op.stationary; }) rewrite(op.stationary), rewrite(op.moving);
      },
      operation);
}

std::string_view operation_name(const Operation& operation);  // NKI's name: "nc_matmul".

}  // namespace neuronmm::tile
