#pragma once
// This file runs a kernel on several cores at once. Each core computes its share of the rows (M)
// with all of the weights. All cores run one program, which asks which core it runs on (NKI's
// nl.program_id), and they exchange nothing.

#include <cstdint>

#include "base/result.h"
#include "trainium/kernels/registry.h"

namespace neuronmm::kernels {

// Returns the shape that one core computes. Fails if the rows do not divide evenly among the cores.
Result<KernelShape> share_of_core(const KernelShape& whole, int64_t cores);

// Makes the program of `kernel` for `whole` from the program of one core. A loop over cores
// surrounds it, and operands that lie along M have the size of the whole. Scratch buffers in HBM
// keep their size, because each core has its own. Fails if an operand cannot be split by rows.
Result<tile::Program> make_program_on_cores(const Kernel& kernel, const KernelShape& whole,
                                            const Tiling& tiling, const KernelOptions& options,
                                            int64_t cores);

}  // namespace neuronmm::kernels
