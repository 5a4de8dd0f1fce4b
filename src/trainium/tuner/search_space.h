#pragma once
// Which tilings of a kernel are tried. A block of a dimension takes 1, 2, 4, 8, ... tiles and the
// whole dimension, blocks of rows also sizes between (they decide the traffic and the SBUF use),
// and all are balanced: 11 + 11 + 10 tiles, not 12 + 12 + 8.
//
// A kernel that is two, one after the other (kernels::Half), is not searched as a whole: every
// combination of the best tilings of its halves is, with each setting of its own parameters; then
// what differs from the best one in one parameter, as long as something better is found.
// A kernel of several parts that share parameters (dense_mlp) names the others PART.NAME. Its parts
// are searched one after the other, each with the others at the best found so far, for every
// setting of what they share. The product of all would be millions.

#include <string_view>
#include <vector>

#include "trainium/kernels/registry.h"
#include "trainium/tuner/tuner.h"

namespace neuronmm::tuner {

std::vector<int64_t> values_to_try(const kernels::TilingParameter& parameter,
                                   const kernels::KernelShape& shape,
                                   const kernels::KernelOptions& options);

// "up." of "up.BM"; "" of "BM".
std::string_view part_of(std::string_view parameter);
// The parts of a kernel in the order of their parameters; {""} when it has but one.
std::vector<std::string_view> parts(const kernels::Kernel& kernel);

// `base` with every combination of the values of the parameters of one part, the last parameter
// varying fastest. Those that the problem has chosen stay.
std::vector<kernels::Tiling> combinations(const Problem& problem, const kernels::Tiling& base,
                                          std::string_view part);
// Those that differ from `tiling` in one parameter.
std::vector<kernels::Tiling> neighbours(const Problem& problem, const kernels::Tiling& tiling);

}  // namespace neuronmm::tuner
