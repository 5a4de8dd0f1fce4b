#include "trainium/kernels/description.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/result.h"

namespace neuronmm::kernels {

std::string to_string(const MatrixLayout& layout) {
  return fmt::format("[{}, {}]", layout.rows, layout.columns);
}

int64_t dimension_of(const KernelShape& shape, char letter) {
  return letter == 'M' ? shape.M : letter == 'K' ? shape.K : letter == 'r' ? shape.r : shape.N;
}

Shape shape_of(const KernelShape& shape, const MatrixLayout& layout) {
  return {dimension_of(shape, layout.rows), dimension_of(shape, layout.columns)};
}

const OperandDescription& output_of(const Kernel& kernel) { return kernel.operands.back(); }

const OperandDescription& operand_of(const Kernel& kernel, std::string_view name) {
  const auto found = std::ranges::find(kernel.operands, name, &OperandDescription::name);
  NMM_CHECK(found != kernel.operands.end());
  return *found;
}

// Kernels that take X either way are described with X transposed, and the option swaps its
// dimensions. The first operand is X.
MatrixLayout layout_of(const Kernel& kernel, const OperandDescription& operand,
                       const KernelOptions& options) {
  const bool natural = kernel.left_layout && options.left == Layout::kNatural;
  if (!natural || operand.name != kernel.operands.front().name) return operand.layout;
  return {operand.layout.columns, operand.layout.rows};
}

}  // namespace neuronmm::kernels
