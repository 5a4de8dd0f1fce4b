#pragma once
// Merges the small instructions of parallel loops into larger ones. If an instruction in the body
// of an innermost loop does the same on neighbouring slices in every iteration, one instruction
// with one more axis in its access patterns replaces all of them. The model of the legacy compiler
// (legacy_compiler.h) uses the pass.
//
// Documented (NKI API, nki.language.affine_range): affine_range allows loop-level optimizations
// such as loop vectorization, which the compiler does not apply to a loop whose iterations depend
// on one another (sequential_range). The documentation does not list the optimizations. Documented
// limits: a moving operand has 512 columns, a PSUM bank 2 KiB, and a pattern at most five axes.
//
// Assumed, from two published rows (docs/reference/nki_legacy.md): only the innermost loop is
// merged, either all of its iterations or none, and only up to 512 elements per partition. The
// tiles that are made in the loop lie next to one another in one tensor afterwards.

#include <cstdint>

#include "trainium/trace/contents.h"
#include "trainium/trace/instruction_list.h"

namespace neuronmm::trace {

struct VectorizeLimits {
  int64_t elements = 512;     // The most elements per partition of a merged access.
  int64_t tile_bytes = 2048;  // The most bytes per partition of joined tiles.
};

// Merges instructions and returns how many fewer there are. `contents` must be those of the list.
int64_t vectorize(InstructionList& list, const Contents& contents,
                  const VectorizeLimits& limits = {});

}  // namespace neuronmm::trace
