#include "trainium/tuner/search_space.h"

#include <algorithm>

#include "trainium/tile/builder.h"

namespace neuronmm::tuner {

using kernels::Tiling;
using kernels::TilingParameter;
using tile::ceil_div;

namespace {

// Returns the smallest block that covers `whole` in no more blocks than `block` does, because
// blocks of equal size waste the least. For 32 tiles, blocks of 12 become blocks of 11: 11 + 11 +
// 10 instead of 12 + 12 + 8.
int64_t balanced(int64_t whole, int64_t block) { return ceil_div(whole, ceil_div(whole, block)); }

bool is_chosen(const kernels::TilingValues& chosen, std::string_view name) {
  return std::any_of(chosen.begin(), chosen.end(),
                     [name](const auto& value) { return value.first == name; });
}

}  // namespace

// The values are powers of two, and for blocks of rows (M) also 1.25 and 1.5 times these. Rows
// decide how often the weights are read, and a block of 11 tiles may fit where 16 do not.
// Parameters that matter only for wide sums keep their default otherwise.
std::vector<int64_t> values_to_try(const TilingParameter& parameter,
                                   const kernels::KernelShape& shape,
                                   const kernels::KernelOptions& options) {
  const bool wide_sums = dtype_size_bytes(options.accumulate) > dtype_size_bytes(options.dtype);
  if (parameter.for_wide_sums && !wide_sums) return {parameter.value};
  if (parameter.for_16_bits && options.dtype != DType::kBF16) return {parameter.value};
  if (parameter.for_few_rows && shape.M > kernels::kPartitions) return {parameter.value};
  // The parameter is a choice, such as the number of passes, and the kernel lists its values.
  if (parameter.dimension == 0) return parameter.search_values;
  std::vector<int64_t> values;
  const int64_t whole = ceil_div(kernels::dimension_of(shape, parameter.dimension), parameter.tile);
  for (int64_t octave = 1; octave < 2 * whole; octave *= 2) {
    for (const int64_t quarters : {4, 5, 6}) {
      if (quarters > 4 && (parameter.dimension != 'M' || octave * quarters % 4 != 0)) continue;
      values.push_back(
          std::min(parameter.most, balanced(whole, std::min(octave * quarters / 4, whole))));
    }
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

// The result includes the dot: "up." for "up.BM". It is empty for "BM".
std::string_view part_of(std::string_view parameter) {
  return parameter.substr(0, parameter.find('.') + 1);
}

std::vector<std::string_view> parts(const kernels::Kernel& kernel) {
  std::vector<std::string_view> all;
  for (const TilingParameter& parameter : kernel.tiling) {
    const std::string_view part = part_of(parameter.name);
    if (!part.empty() && std::find(all.begin(), all.end(), part) == all.end()) all.push_back(part);
  }
  if (all.empty()) all.emplace_back("");
  return all;
}

// The product grows by one parameter per round.
std::vector<Tiling> combinations(const Problem& problem, const Tiling& base,
                                 std::string_view part) {
  std::vector<Tiling> all = {base};
  for (const TilingParameter& parameter : problem.kernel->tiling) {
    if (part_of(parameter.name) != part || is_chosen(problem.chosen, parameter.name)) continue;
    std::vector<Tiling> more;
    for (const Tiling& tiling : all) {
      for (const int64_t value : values_to_try(parameter, problem.shape, problem.options)) {
        more.push_back(tiling);
        more.back().set(parameter.name, value);
      }
    }
    all = std::move(more);
  }
  return all;
}

// The result also contains the tiling itself, once per parameter. The search recognizes the tiling
// by its name and skips it.
std::vector<Tiling> neighbours(const Problem& problem, const Tiling& tiling) {
  std::vector<Tiling> all;
  for (const TilingParameter& parameter : problem.kernel->tiling) {
    if (is_chosen(problem.chosen, parameter.name)) continue;
    for (const int64_t value : values_to_try(parameter, problem.shape, problem.options)) {
      all.push_back(tiling);
      all.back().set(parameter.name, value);
    }
  }
  return all;
}

}  // namespace neuronmm::tuner
