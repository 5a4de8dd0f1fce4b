// This file implements kernels() of registry.h: the list of all kernels. Each kernel is described
// in the file that makes its program.

#include "trainium/kernels/registry.h"

namespace neuronmm::kernels {

// Every family of kernels has such a function in its own file. A new family is declared here and
// added to the list below.
std::vector<Kernel> matmul_kernels();
std::vector<Kernel> xuv_kernels();
std::vector<Kernel> pivoted_kernels();
std::vector<Kernel> mlp_kernels();
std::vector<Kernel> dense_mlp_kernels();
std::vector<Kernel> narrow_mlp_kernels();
std::vector<Kernel> moe_mlp_kernels();

namespace {

constexpr std::vector<Kernel> (*kFamilies[])() = {
    matmul_kernels,    xuv_kernels,        pivoted_kernels, mlp_kernels,
    dense_mlp_kernels, narrow_mlp_kernels, moe_mlp_kernels};

std::vector<Kernel> all_kernels() {
  std::vector<Kernel> all;
  for (const auto family : kFamilies) {
    for (Kernel& kernel : family()) all.push_back(std::move(kernel));
  }
  return all;
}

}  // namespace

std::span<const Kernel> kernels() {
  static const std::vector<Kernel> all = all_kernels();
  return all;
}

}  // namespace neuronmm::kernels
