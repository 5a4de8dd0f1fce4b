#pragma once
// This file finds every kernel by its name and makes programs from them. The commands, the tuner
// and the validation use it. All functions fail with a message for the user: for an unknown kernel
// or parameter, and for a shape or option that the kernel does not support.

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "trainium/kernels/description.h"
#include "trainium/kernels/kernel.h"
#include "trainium/tile/checker.h"
#include "trainium/tile/program.h"

namespace neuronmm::kernels {

std::span<const Kernel> kernels();
Result<const Kernel*> find_kernel(std::string_view name);  // The error lists the names.

using TilingValues = std::vector<std::pair<std::string, int64_t>>;

// Returns the default tiling with the values in `chosen` replaced.
Result<Tiling> tiling_of(const Kernel& kernel, const TilingValues& chosen);
// Returns the same tiling, but halves the row blocks (BM) that were not chosen until SBUF holds the
// program.
Result<Tiling> fitting_tiling(const Kernel& kernel, const KernelShape& shape,
                              const KernelOptions& options, const TilingValues& chosen,
                              const tile::Limits& limits);

// Checks the shape and the options, and makes the program.
Result<tile::Program> make_program(const Kernel& kernel, const KernelShape& shape,
                                   const Tiling& tiling, const KernelOptions& options);

}  // namespace neuronmm::kernels
