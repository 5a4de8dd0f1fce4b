#pragma once
// Which instructions of a trace must come before which: all that the order of a schedule has to
// keep.

#include <cstdint>
#include <span>
#include <vector>

#include "trainium/trace/contents.h"
#include "trainium/trace/instruction_list.h"

namespace neuronmm::trace {

struct Dependence {
  uint32_t from = 0, to = 0;  // instructions
  // It waits until the earlier one's result is visible (it reads or overwrites it), or else only
  // until the earlier one has read what it overwrites.
  bool visible = true;
};

// By the cells that instructions access: reads after writes, writes after reads and writes after
// writes. Tensors whose addresses the program gives follow one another where they overlap. An edge
// for each pair at most once, ascending by `to`.
std::vector<Dependence> find_dependences(const InstructionList& list, const Contents& contents);

}  // namespace neuronmm::trace
