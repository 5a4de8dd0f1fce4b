#pragma once
// Small problems that the tests of the tuner share.

#include <random>
#include <string_view>

#include "trainium/tuner/tuner.h"

namespace neuronmm::tuner {

inline Problem problem_of(std::string_view kernel, const kernels::KernelShape& shape,
                          const kernels::KernelOptions& options = {},
                          std::string_view device = "trn1") {
  return {.kernel = *kernels::find_kernel(kernel),
          .shape = shape,
          .options = options,
          .device = *simulator::find_device(device)};
}

inline kernels::KernelOptions random_options(const kernels::Kernel& kernel, std::mt19937& random) {
  const auto coin = [&random] { return random() % 2 == 0; };
  kernels::KernelOptions options;
  if (coin()) options.accumulate = DType::kBF16;
  if (random() % 4 == 0) options = {.dtype = DType::kF32, .accumulate = DType::kF32};
  if (kernel.left_layout && coin()) options.left = kernels::Layout::kNatural;
  return options;
}

}  // namespace neuronmm::tuner
