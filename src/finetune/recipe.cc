#include "finetune/recipe.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

namespace neuronmm::finetune {
namespace {

// Measured for 2e-5 to 5e-5 (docs/measurements/finetune.md), and assumed for adapters.
constexpr double kUsualRate = 2e-5, kUsualAdapterRate = 2e-4;
constexpr int64_t kWarmUp = 100;  // in steps. Assumed.

}  // namespace

double learning_rate_at(double largest, int64_t step, int64_t steps) {
  const int64_t warm_up = std::min(kWarmUp, steps / 10);
  const int64_t part = step < warm_up ? step + 1 : steps - step;
  return largest * static_cast<double>(part) /
         static_cast<double>(step < warm_up ? warm_up : steps - warm_up);
}

std::vector<double> trial_rates(const Recipe& recipe) {
  const double usual = recipe.lora_rank > 0 ? kUsualAdapterRate : kUsualRate;
  return {usual / 3, usual, usual * 3};
}

// Shuffles by Fisher-Yates with the remainder of a 64-bit number, because std::shuffle differs
// between standard libraries.
std::vector<size_t> shuffled(size_t count, uint64_t seed, int64_t epoch) {
  std::seed_seq seeds = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                         static_cast<uint32_t>(epoch)};
  std::mt19937_64 random(seeds);
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = count; i-- > 1;) std::swap(order[i], order[random() % (i + 1)]);
  return order;
}

}  // namespace neuronmm::finetune
