#pragma once
// Which instructions of a trace must come before which: all that the order of a schedule has to
// keep.

#include <cstdint>
#include <span>
#include <vector>

#include "trainium/trace/contents.h"
#include "trainium/trace/instruction_list.h"

namespace neuronmm::trace {

// What the later instruction waits for: nothing but its turn, that the earlier one has read what it
// overwrites, or that the earlier one's result is visible.
enum class Wait : uint8_t { kTurn, kRead, kVisible };

struct Dependence {
  uint32_t from = 0, to = 0;  // instructions
  Wait wait = Wait::kVisible;
};

// By the cells that instructions access: reads after writes, writes after reads and writes after
// writes. Tensors whose addresses the program gives follow one another where they overlap. Of a
// tensor in HBM that is only written no cells are known: its writes keep their order. An edge for
// each pair at most once, ascending by `to`.
std::vector<Dependence> find_dependences(const InstructionList& list, const Contents& contents);

}  // namespace neuronmm::trace
