#pragma once
// Removes fills (memset) that nobody reads: zeros that are written over before they are read. The
// model of the legacy compiler uses the pass.
//
// Assumed, because any compiler removes dead stores. A published row shows that the compiler does
// it (docs/reference/nki_legacy.md, conv1d).

#include <cstdint>

#include "trainium/trace/contents.h"
#include "trainium/trace/instruction_list.h"

namespace neuronmm::trace {

// Drops or shrinks dead fills. A memset keeps only the columns that are read somewhere before they
// are written again, and is dropped if there are none. If the columns are not adjacent, it becomes
// several fills, provided that this is less work. Returns how many fills are dropped or smaller.
int64_t drop_dead_fills(InstructionList& list, const Contents& contents);

}  // namespace neuronmm::trace
