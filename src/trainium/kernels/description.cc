#include "trainium/kernels/description.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/result.h"

namespace neuronmm::kernels {

std::string to_string(const MatrixLayout& layout) {
  return fmt::format("[{}, {}]", dimension_text(layout.rows), dimension_text(layout.columns));
}

const NonPivotDimension* find_non_pivot_dimension(char letter) {
  static constexpr std::array kNonPivotDimensions = {NonPivotDimension{'k', 'K', 'r'},
                                                     NonPivotDimension{'n', 'N', 'r'},
                                                     NonPivotDimension{'q', 'K', 's'}};
  const auto found = std::ranges::find(kNonPivotDimensions, letter, &NonPivotDimension::letter);
  return found == kNonPivotDimensions.end() ? nullptr : &*found;
}

const ExpertRows* find_expert_rows(char letter) {
  static constexpr std::array kExpertRows = {ExpertRows{'e', 'K'}, ExpertRows{'f', 'N'},
                                             ExpertRows{'g', 'r'}};
  const auto found = std::ranges::find(kExpertRows, letter, &ExpertRows::letter);
  return found == kExpertRows.end() ? nullptr : &*found;
}

char contraction_of(char rows) {
  const ExpertRows* const experts = find_expert_rows(rows);
  return experts ? experts->rows : rows;
}

DType dtype_of(const OperandDescription& operand, DType dtype) {
  if (operand.kind == OperandKind::kExperts) return DType::kI32;
  return operand.kind == OperandKind::kShares ? DType::kF32 : dtype;
}

std::string dimension_text(char letter) {
  if (const ExpertRows* experts = find_expert_rows(letter))
    return fmt::format("E·{}", experts->rows);
  const NonPivotDimension* non_pivots = find_non_pivot_dimension(letter);
  return non_pivots ? fmt::format("{} - {}", non_pivots->whole, non_pivots->pivots)
                    : std::string(1, letter);
}

std::string dimension_name(char letter) {
  if (const ExpertRows* experts = find_expert_rows(letter)) {
    return fmt::format("E_times_{}", experts->rows);
  }
  const NonPivotDimension* non_pivots = find_non_pivot_dimension(letter);
  return non_pivots ? fmt::format("{}_less_{}", non_pivots->whole, non_pivots->pivots)
                    : std::string(1, letter);
}

int64_t& dimension_of(KernelShape& shape, char letter) {
  switch (letter) {
    case 'M':
      return shape.M;
    case 'K':
      return shape.K;
    case 'r':
      return shape.r;
    case 's':
      return shape.s;
    case 'E':
      return shape.E;
    case 'A':
      return shape.A;
    case 'D':
      return shape.D;
    default:
      return shape.N;
  }
}

int64_t dimension_of(const KernelShape& shape, char letter) {
  if (letter == '1') return 1;
  if (const ExpertRows* experts = find_expert_rows(letter)) {
    return shape.E * dimension_of(shape, experts->rows);
  }
  KernelShape sizes = shape;
  const NonPivotDimension* non_pivots = find_non_pivot_dimension(letter);
  if (!non_pivots) return dimension_of(sizes, letter);
  return dimension_of(sizes, non_pivots->whole) - dimension_of(sizes, non_pivots->pivots);
}

std::string shape_syntax(const Kernel& kernel) {
  std::string text;
  for (const char letter : kernel.dimensions)
    text += fmt::format("{}{}", text.empty() ? "" : ",", letter);
  return text;
}

std::string shape_sizes(const Kernel& kernel, const KernelShape& shape) {
  std::string text;
  for (const char letter : kernel.dimensions) {
    text += fmt::format("{}{}", text.empty() ? "" : ",", dimension_of(shape, letter));
  }
  return text;
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

// Kernels that take X in either layout are described with X transposed, and the option swaps its
// dimensions. X is the first operand.
MatrixLayout layout_of(const Kernel& kernel, const OperandDescription& operand,
                       const KernelOptions& options) {
  const bool natural = kernel.left_layout && options.left == Layout::kNatural;
  if (!natural || operand.name != kernel.operands.front().name) return operand.layout;
  return {operand.layout.columns, operand.layout.rows};
}

}  // namespace neuronmm::kernels
