#pragma once
// Chooses one option for every item so that the sum of one quantity is small and the sums of the
// others stay within limits. This is the multiple-choice knapsack problem with several constraints.
// ModelSearch solves it with layers' parts as items.
//
// Once every limited quantity has a price, each item can choose its cheapest option alone. The
// prices are adjusted in turns, each by bisection, until all limits hold. What is then left of the
// limits is spent one exchange at a time.
//
// For any prices, the sum of what the items pay, minus the limits times their prices, is a lower
// bound of the least possible sum (Lagrangian relaxation). The largest of these bounds comes with
// the result.

#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

namespace neuronmm::fit {

// The costs of an option, all >= 0.
enum Quantity : size_t { kLoss, kBytes, kDecode, kPrefill, kQuantities };
using Quantities = std::array<double, kQuantities>;

inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// The quantity to minimize and the limits of the other sums.
struct Goal {
  Quantity minimized = kLoss;
  Quantities limits = {kUnlimited, kUnlimited, kUnlimited, kUnlimited};  // limits of the other sums
};

// The chosen options and their sums.
struct Selection {
  std::vector<size_t> options;  // one index per item
  Quantities sums = {};
  // No selection within the limits has a smaller sum of goal.minimized.
  double bound = 0.0;
};

using Items = std::vector<std::vector<Quantities>>;  // every item has options

// Returns the best selection that is found, or nothing if no selection within the limits is found.
std::optional<Selection> select(const Items& items, const Goal& goal);

// Returns the smallest possible sum of one quantity.
double smallest_sum(const Items& items, Quantity quantity);

}  // namespace neuronmm::fit
