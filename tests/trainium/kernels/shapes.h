#pragma once
// Random shapes that every kernel takes.

#include <algorithm>
#include <cstdint>

#include "trainium/kernels/registry.h"

namespace neuronmm::kernels {

// Pivots are fewer than the columns that they are picked from.
inline void make_room_for_pivots(const Kernel& kernel, KernelShape& shape) {
  for (const OperandDescription& operand : kernel.operands) {
    for (const char letter : {operand.layout.rows, operand.layout.columns}) {
      const Rest* rest = find_rest(letter);
      if (!rest) continue;
      int64_t &whole = dimension_of(shape, rest->whole), &r = dimension_of(shape, rest->pivots);
      whole = std::max<int64_t>(whole, 2);
      if (r >= whole) r = 1 + r % (whole - 1);
    }
  }
}

}  // namespace neuronmm::kernels
