#pragma once
// This file lists the tilings of a kernel that the tuner tries. A block of a dimension takes 1, 2,
// 4, 8, ... tiles or the whole dimension. Blocks of rows also take sizes between these, because
// rows decide the traffic and the SBUF use. All blocks are balanced: 11 + 11 + 10 tiles instead of
// 12 + 12 + 8.
//
// The product of all parameters of a large kernel would be millions of tilings, so such a kernel is
// not searched as a whole.
// * A kernel that runs two kernels one after the other has sub-kernels (kernels::SubKernel). The
//   search tries every combination of the best tilings of its sub-kernels, with each setting of its
//   own parameters. After that it tries tilings that differ from the best one in one parameter,
//   until none is better.
// * A kernel whose parts share parameters (dense_mlp) names the other parameters PART.NAME. Its
//   parts are searched one after the other, each with the others at the best values found so far.
//   This is repeated for every setting of the shared parameters.

#include <string_view>
#include <vector>

#include "trainium/kernels/registry.h"
#include "trainium/tuner/tuner.h"

namespace neuronmm::tuner {

// Returns the values of one parameter that the search tries, in ascending order for a block size.
std::vector<int64_t> values_to_try(const kernels::TilingParameter& parameter,
                                   const kernels::KernelShape& shape,
                                   const kernels::KernelOptions& options);

// Returns "up." for "up.BM", and "" for "BM".
std::string_view part_of(std::string_view parameter);
// Returns the parts of a kernel in the order of their parameters, or {""} if it has only one.
std::vector<std::string_view> parts(const kernels::Kernel& kernel);

// Returns `base` with every combination of the values of one part's parameters. The last parameter
// varies fastest. Parameters that the problem has chosen keep their values.
std::vector<kernels::Tiling> combinations(const Problem& problem, const kernels::Tiling& base,
                                          std::string_view part);
// Returns the tilings that differ from `tiling` in at most one parameter.
std::vector<kernels::Tiling> neighbours(const Problem& problem, const kernels::Tiling& tiling);

}  // namespace neuronmm::tuner
