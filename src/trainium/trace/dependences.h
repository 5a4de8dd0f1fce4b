#pragma once
// Finds which instructions of a trace must come before which others. The list scheduler
// (list_schedule.h) may use any order that keeps these dependences.

#include <cstdint>
#include <vector>

#include "trainium/trace/contents.h"
#include "trainium/trace/instruction_list.h"

namespace neuronmm::trace {

// How long the later instruction waits. kOrder: it only keeps the order. kRead: the earlier
// instruction has read what the later one overwrites. kVisible: the result of the earlier
// instruction is visible.
enum class Wait : uint8_t { kOrder, kRead, kVisible };

struct Dependence {
  uint32_t from = 0, to = 0;  // Indices of instructions.
  Wait wait = Wait::kVisible;
};

// Returns the dependences in ascending order of `to`, with at most one per pair. They follow from
// the cells that instructions access: reads after writes, writes after reads and writes after
// writes. Tensors whose addresses the program gives depend on one another if they overlap. The
// cells of a tensor in HBM that is only written are unknown, so its writes keep their order.
std::vector<Dependence> find_dependences(const InstructionList& list, const Contents& contents);

}  // namespace neuronmm::trace
