#pragma once
// The order in which a compiler might issue a trace's instructions: of those whose operands are
// there, the one that can begin first goes first, and of several the one that the program names
// first.
//
// Documented (NKI API, nki.language.affine_range): iterations may run in parallel on different
// engines, as data dependences allow. Assumed: list scheduling itself, its window, and that
// iterations of sequential loops overlap as their data allows.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "trainium/simulator/device_spec.h"
#include "trainium/trace/contents.h"
#include "trainium/trace/instruction_list.h"

namespace neuronmm::trace {

struct ScheduleOptions {
  uint32_t window = 256;  // instructions behind the first that is left to do
};

// The instructions' numbers in their new order: one that every dependence allows
// (dependences.h) and that needs no more PSUM and SBUF than there is, or than the program's order
// needs where that is more. Fails where an instruction has no price.
Result<std::vector<uint32_t>> list_schedule(const InstructionList& list, const Contents& contents,
                                            const simulator::DeviceSpec& device,
                                            const ScheduleOptions& options = {});

}  // namespace neuronmm::trace
