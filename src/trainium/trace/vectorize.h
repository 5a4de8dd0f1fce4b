#pragma once
// The small instructions of parallel loops become larger ones: a statement of the innermost loop's
// body that does the same on neighbouring slices in every iteration is one instruction with an axis
// more in its access patterns.
//
// Documented (NKI API, nki.language.affine_range): affine_range allows the compiler loop-level
// optimizations such as loop vectorization, which it does not do to a loop whose iterations
// depend on one another (sequential_range); which ones exactly is left open. Documented limits: 512
// columns of a moving operand, 2 KiB of a PSUM bank, patterns of at most five axes.
// Assumed, from two published rows (docs/nki_legacy.md): only the innermost loop is merged, all of
// it or nothing, and only up to 512 elements per partition. Tiles that are made in the loop lie
// side by side in one tensor afterwards.

#include <cstdint>

#include "trainium/trace/contents.h"
#include "trainium/trace/instruction_list.h"

namespace neuronmm::trace {

struct VectorizeLimits {
  int64_t elements = 512;     // per partition, of a merged access
  int64_t tile_bytes = 2048;  // per partition, of tiles that are put side by side
};

// Returns how many instructions are gone. `contents` is that of the list as it stands.
int64_t vectorize(InstructionList& list, const Contents& contents,
                  const VectorizeLimits& limits = {});

}  // namespace neuronmm::trace
