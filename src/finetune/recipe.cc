#include "finetune/recipe.h"

#include <algorithm>
#include <array>

namespace neuronmm::finetune {

std::string_view part_name(Part part) {
  switch (part) {
    case Part::kU:
      return "u";
    case Part::kV:
      return "v";
    case Part::kBoth:
      return "both";
    case Part::kFactors:
      return "factors";
    case Part::kAll:
      return "all";
    case Part::kBlocks:
      return "blocks";
  }
  return {};
}

// The list is an order: parts are trained one after the other, and a name may occur several times.
Result<std::vector<Part>> parse_parts(std::string_view names) {
  constexpr std::array kParts = {Part::kU, Part::kV, Part::kBoth, Part::kFactors, Part::kAll};
  std::vector<Part> parts;
  while (true) {
    const size_t comma = names.find(',');
    const std::string_view name = names.substr(0, comma);
    const auto part = std::ranges::find(kParts, name, part_name);
    if (part == kParts.end()) {
      return fail("expected u, v, both, factors or all, or several with commas, found \"{}\"",
                  name);
    }
    parts.push_back(*part);
    if (comma == std::string_view::npos) return parts;
    names.remove_prefix(comma + 1);
  }
}

std::vector<Part> Recipe::all_phases() const {
  std::vector<Part> all = phases;
  if (block_epochs > 0) all.insert(all.begin(), Part::kBlocks);
  return all;
}

bool Recipe::trains_all() const { return std::ranges::count(phases, Part::kAll) > 0; }

namespace {

// Returns the share of the largest rate at one step. At most a tenth of the steps are warm-up, so
// that a short run still reaches the full rate. After the warm-up the rate falls linearly and
// reaches zero one step after the last.
double schedule_factor(const Recipe& recipe, int64_t step, int64_t total_steps) {
  const int64_t warmup = std::min(recipe.warmup, total_steps / 10);
  return step < warmup
             ? static_cast<double>(step + 1) / static_cast<double>(warmup)
             : static_cast<double>(total_steps - step) / static_cast<double>(total_steps - warmup);
}

}  // namespace

double learning_rate_at(const Recipe& recipe, int64_t step, int64_t total_steps) {
  return recipe.learning_rate * schedule_factor(recipe, step, total_steps);
}

double block_learning_rate_at(const Recipe& recipe, int64_t step, int64_t total_steps) {
  return recipe.block_learning_rate * schedule_factor(recipe, step, total_steps);
}

}  // namespace neuronmm::finetune
