#pragma once
// Models the order in which a compiler might issue a trace's instructions. Among the instructions
// whose operands are ready, the one that can begin first goes first. If several can begin at the
// same time, the first one in the program goes first. The model of the legacy compiler
// (legacy_compiler.h) uses the pass.
//
// Documented (NKI API, nki.language.affine_range): iterations may run in parallel on different
// engines, as far as data dependences allow. Assumed: list scheduling itself, its window, and that
// iterations of sequential loops overlap as far as their data allows.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "trainium/simulator/device_spec.h"
#include "trainium/trace/contents.h"
#include "trainium/trace/instruction_list.h"

namespace neuronmm::trace {

struct ScheduleOptions {
  // The most instructions that it looks ahead from the first one not yet scheduled.
  uint32_t window = 256;
};

// Returns the instructions' indices in their new order. The order keeps every dependence
// (dependences.h). It needs no more PSUM and SBUF than the device has, or than the program's order
// needs if that is more. Fails if an instruction has no price.
Result<std::vector<uint32_t>> list_schedule(const InstructionList& list, const Contents& contents,
                                            const simulator::DeviceSpec& device,
                                            const ScheduleOptions& options = {});

}  // namespace neuronmm::trace
