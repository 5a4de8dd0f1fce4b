#pragma once
// Every kernel by name, and the programs that are made of them.

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
Result<const Kernel*> find_kernel(std::string_view name);  // the error lists the names

using TilingValues = std::vector<std::pair<std::string, int64_t>>;

// The defaults with `chosen` in place of some.
Result<Tiling> tiling_of(const Kernel& kernel, const TilingValues& chosen);
// The same, and the row blocks (BM) that were not chosen are halved until SBUF holds the program.
Result<Tiling> fitting_tiling(const Kernel& kernel, const KernelShape& shape,
                              const KernelOptions& options, const TilingValues& chosen,
                              const tile::Limits& limits);

Result<tile::Program> make_program(const Kernel& kernel, const KernelShape& shape,
                                   const Tiling& tiling, const KernelOptions& options);

}  // namespace neuronmm::kernels
