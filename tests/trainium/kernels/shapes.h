#pragma once
// Adjusts random shapes so that a kernel takes them. The tests of several libraries use it.

#include <algorithm>
#include <cstdint>

#include "trainium/kernels/registry.h"

namespace neuronmm::kernels {

// Reduces pivots to fewer than the columns that they are picked from.
inline void reduce_pivots(const Kernel& kernel, KernelShape& shape) {
  for (const OperandDescription& operand : kernel.operands) {
    for (const char letter : {operand.layout.rows, operand.layout.columns}) {
      const NonPivotDimension* non_pivots = find_non_pivot_dimension(letter);
      if (!non_pivots) continue;
      int64_t &whole = dimension_of(shape, non_pivots->whole),
              &r = dimension_of(shape, non_pivots->pivots);
      whole = std::max<int64_t>(whole, 2);
      if (r >= whole) r = 1 + r % (whole - 1);
    }
  }
}

// Gives a kernel for mixtures at most 32 tokens, and numbers of experts that fit them. The numbers
// depend on the other sizes alone.
inline void choose_experts(const Kernel& kernel, KernelShape& shape) {
  if (!kernel.experts) return;
  shape.M = 1 + shape.M % kMostDecodeTokens;
  shape.E = 2 + shape.K % 4;
  shape.A = 1 + shape.N % 2;
  shape.D = shape.A + (shape.K + shape.N) % (std::min(shape.E, shape.M * shape.A) - shape.A + 1);
}

// Makes any shape one that the kernel takes.
inline KernelShape suited(const Kernel& kernel, KernelShape shape) {
  reduce_pivots(kernel, shape);
  choose_experts(kernel, shape);
  return shape;
}

// Changes the shape so that a kernel whose tiling asks for contiguous loads does use them. Such a
// kernel needs few rows and a multiple of 128 columns.
inline void make_contiguous(const Tiling& tiling, KernelShape& shape) {
  const auto asked = [](const auto& parameter) {
    return parameter.first.ends_with("contiguous") && parameter.second == 1;
  };
  if (std::none_of(tiling.values().begin(), tiling.values().end(), asked)) return;
  shape.M = 1 + shape.M % (shape.M % 2 == 0 ? 8 : 128);
  shape.K = 128 * std::max<int64_t>(1, shape.K / 128);
}

}  // namespace neuronmm::kernels
