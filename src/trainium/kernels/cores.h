#pragma once
// A kernel on several cores at once: each makes its share of the rows (M) with all of the weights,
// as one program that asks which core it runs on (NKI's nl.program_id). Nothing is exchanged.

#include <cstdint>

#include "base/result.h"
#include "trainium/kernels/registry.h"

namespace neuronmm::kernels {

// What one core has to do. Fails where the rows do not divide evenly.
Result<KernelShape> share_of_core(const KernelShape& whole, int64_t cores);

// The program of `kernel` for `whole`, made of that of one core: a loop over cores around it, and
// operands that lie along M as large as the whole. What a core keeps in HBM for itself stays so.
Result<tile::Program> make_program_on_cores(const Kernel& kernel, const KernelShape& whole,
                                            const Tiling& tiling, const KernelOptions& options,
                                            int64_t cores);

}  // namespace neuronmm::kernels
