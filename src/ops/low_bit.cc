#include "ops/low_bit.h"

#include "ops/weights.h"

namespace neuronmm::ops {

int Codes::byte(int64_t i, int64_t j) const {
  const int stored = q[static_cast<size_t>(i * columns + j)];
  if (format.bits == 8) return stored - 128;
  if (format.bits == 6) return stored - 32;
  const int64_t per_row = (columns + format.group - 1) / format.group;
  return GroupOf4Bits::of(groups[static_cast<size_t>(i * per_row + j / format.group)]).byte(stored);
}

double Codes::value(int64_t i, int64_t j) const {
  const int64_t per_row = (columns + kQuantGroup - 1) / kQuantGroup;
  const bf16 scale = scales[static_cast<size_t>(i * per_row + j / kQuantGroup)];
  return static_cast<double>(scale.to_float()) * byte(i, j);
}

}  // namespace neuronmm::ops
