#include "trainium/kernels/registry.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include <fmt/format.h>

#include "trainium/tile/memory_use.h"

namespace neuronmm::kernels {
namespace {

// A mixture's batch is one decode step. Each token chooses A experts, so all tokens together choose
// A to M·A of them.
Status check_experts(const Kernel& kernel, const KernelShape& shape) {
  const auto& [M, E, A, D] = std::tie(shape.M, shape.E, shape.A, shape.D);
  if (M > kMostDecodeTokens) {
    return fail("{}: expected M, the tokens of one decode step, between 1 and {}, found {}",
                kernel.name, kMostDecodeTokens, M);
  }
  if (E > kMostExperts) {
    return fail("{}: expected E, the experts, between 1 and {}, found {}", kernel.name,
                kMostExperts, E);
  }
  if (A > E) {
    return fail("{}: expected A, the active experts per token, between 1 and E {}, found {}",
                kernel.name, E, A);
  }
  if (D < A || D > std::min(E, M * A)) {
    return fail(
        "{}: expected D, the distinct experts that the tokens choose, between A {} and the smaller "
        "of E {} and M·A {}, found {}",
        kernel.name, A, E, M * A, D);
  }
  return {};
}

Status check_shape(const Kernel& kernel, const KernelShape& shape) {
  for (const char letter : kernel.dimensions) {
    const int64_t size = dimension_of(shape, letter);
    if (size < 1 || size > kLargestDimension) {
      return fail("{}: expected {} between 1 and {}, found {}", kernel.name, letter,
                  kLargestDimension, size);
    }
  }
  if (kernel.experts) NMM_TRY(check_experts(kernel, shape));
  double product = 1;
  for (const char letter : {'M', 'K', 'r', 'N'}) {
    const bool has = kernel.dimensions.find(letter) != kernel.dimensions.npos;
    if (has) product *= static_cast<double>(dimension_of(shape, letter));
  }
  if (product > kLargestProduct) {
    return fail("{}: expected the product of M, K, r and N to be at most 2^{:.0f}, found 2^{:.1f}",
                kernel.name, std::log2(kLargestProduct), std::log2(product));
  }
  // Pivots are some of the columns, but not all of them.
  for (const OperandDescription& operand : kernel.operands) {
    for (const char letter : {operand.layout.rows, operand.layout.columns}) {
      const NonPivotDimension* non_pivots = find_non_pivot_dimension(letter);
      if (!non_pivots || dimension_of(shape, letter) >= 1) continue;
      return fail("{}: expected {} below {}, found {} {} and {} {}", kernel.name,
                  non_pivots->pivots, non_pivots->whole, non_pivots->pivots,
                  dimension_of(shape, non_pivots->pivots), non_pivots->whole,
                  dimension_of(shape, non_pivots->whole));
    }
  }
  return {};
}

// Fails for combinations that no kernel supports.
Status check_options(const Kernel& kernel, const KernelOptions& options) {
  for (const DType dtype : {options.dtype, options.accumulate}) {
    if (dtype != DType::kBF16 && dtype != DType::kF32) {
      return fail("{}: expected dtype BF16 or F32, found {}", kernel.name, dtype_name(dtype));
    }
  }
  if (options.dtype == DType::kF32 && options.accumulate == DType::kBF16) {
    return fail("{}: fp32 operands accumulate in fp32; bf16 was asked for", kernel.name);
  }
  if (options.left == Layout::kNatural && !kernel.left_layout) {
    return fail("{}: the layout of its left operand is part of the kernel, not an option",
                kernel.name);
  }
  return {};
}

std::string tiling_names(const Kernel& kernel) {
  std::string names;
  for (const TilingParameter& parameter : kernel.tiling) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", parameter.name);
  }
  return names.empty() ? "none" : names;
}

}  // namespace

Result<const Kernel*> find_kernel(std::string_view name) {
  std::string names;
  for (const Kernel& kernel : kernels()) {
    if (kernel.name == name) return &kernel;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", kernel.name);
  }
  return fail("unknown kernel {}: expected one of {}", name, names);
}

// The parameters keep the kernel's order, whatever the order in which they were given.
Result<Tiling> tiling_of(const Kernel& kernel, const TilingValues& chosen) {
  TilingValues values;
  for (const TilingParameter& parameter : kernel.tiling) {
    values.emplace_back(parameter.name, parameter.value);
  }
  Tiling tiling(std::move(values));
  for (const auto& [name, value] : chosen) {
    const auto parameter =
        std::find_if(kernel.tiling.begin(), kernel.tiling.end(),
                     [&name = name](const TilingParameter& p) { return p.name == name; });
    if (parameter == kernel.tiling.end()) {
      return fail("{}: unknown tiling parameter {}: expected one of {}", kernel.name, name,
                  tiling_names(kernel));
    }
    if (value < parameter->least || value > parameter->most) {
      return fail("{}: expected tiling {} between {} and {}, found {}", kernel.name, name,
                  parameter->least, parameter->most, value);
    }
    tiling.set(name, value);
  }
  return tiling;
}

// All programs are made here, so every program has had its shape and options checked.
Result<tile::Program> make_program(const Kernel& kernel, const KernelShape& shape,
                                   const Tiling& tiling, const KernelOptions& options) {
  NMM_TRY(check_shape(kernel, shape));
  NMM_TRY(check_options(kernel, options));
  return kernel.make(shape, tiling, options);
}

// Halves the row blocks (BM) that were not chosen until SBUF holds the program, or until no block
// is left to halve. The memory of sums and strips is proportional to the rows of a block.
Result<Tiling> fitting_tiling(const Kernel& kernel, const KernelShape& shape,
                              const KernelOptions& options, const TilingValues& chosen,
                              const tile::Limits& limits) {
  NMM_ASSIGN(Tiling tiling, tiling_of(kernel, chosen));
  const auto is_chosen = [&chosen](const std::string& name) {
    return std::any_of(chosen.begin(), chosen.end(),
                       [&name](const auto& value) { return value.first == name; });
  };
  // A program is cheap to make, so each halving is tried.
  while (true) {
    NMM_ASSIGN(const tile::Program program, make_program(kernel, shape, tiling, options));
    if (tile::sbuf_use(program).peak <= limits.sbuf_bytes_per_partition_usable) return tiling;
    bool smaller = false;
    const TilingValues values = tiling.values();
    for (const auto& [name, value] : values) {
      if (!name.ends_with("BM") || value == 1 || is_chosen(name)) continue;
      tiling.set(name, value / 2);
      smaller = true;
    }
    if (!smaller) return tiling;
  }
}

}  // namespace neuronmm::kernels
