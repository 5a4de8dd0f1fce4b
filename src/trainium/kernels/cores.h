#pragma once
// This file runs a kernel on several cores at once. Each core computes its share of the rows (M)
// with all of the weights. All cores run one program, which asks which core it runs on (NKI's
// nl.program_id), and they exchange nothing.
//
// apps/kernel/kernel_settings.cc calls it for commands with --cores. The simulator and the tuner
// work on the share of one core, and emitted sources have the program of all cores. `cores` must be
// at least 1, which the option checks.

#include <cstdint>

#include "base/result.h"
#include "trainium/kernels/registry.h"

namespace neuronmm::kernels {

// Returns the shape that one core computes. Fails if the rows do not divide evenly among the cores.
// The message names the option --cores.
Result<KernelShape> share_of_core(const KernelShape& whole, int64_t cores);

// Makes the program of `kernel` for `whole` from the program of one core. A loop over cores
// surrounds it, and operands that lie along M have the size of the whole. Scratch buffers in HBM
// keep their size, because each core has its own.
//
// Fails if the rows do not divide evenly, if make_program() (registry.h) fails, or if an operand
// cannot be split by rows. That is so if a program views an operand whose tokens are columns.
Result<tile::Program> make_program_on_cores(const Kernel& kernel, const KernelShape& whole,
                                            const Tiling& tiling, const KernelOptions& options,
                                            int64_t cores);

}  // namespace neuronmm::kernels
