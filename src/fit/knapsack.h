#pragma once
// One option of every item, so that the sum of one quantity is small and the sums of others stay
// within limits: the multiple-choice knapsack with several constraints.
//
// With a price for each limited quantity every item chooses alone. Prices are raised and lowered in
// turns, each by bisection, until all limits hold; what is left of the limits is then spent one
// step at a time. Whatever the prices are, the sum of what items pay at them, less the limits at
// those prices, is no more than the least sum that there can be (Lagrangian relaxation): the
// largest of these is the bound that comes with the result.

#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

namespace neuronmm::fit {

// What an option costs, all >= 0.
enum Quantity : size_t { kLoss, kBytes, kDecode, kPrefill, kQuantities };
using Quantities = std::array<double, kQuantities>;

inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();

struct Goal {
  Quantity least = kLoss;
  Quantities most = {kUnlimited, kUnlimited, kUnlimited, kUnlimited};  // of the other sums
};

struct Selection {
  std::vector<size_t> options;  // one index per item
  Quantities sums = {};
  double bound = 0.0;  // no selection within the limits has a smaller sum of goal.least
};

using Items = std::vector<std::vector<Quantities>>;  // no item is without options

// Nothing where no selection within the limits is found.
std::optional<Selection> select(const Items& items, const Goal& goal);

// The smallest sum of one quantity that the items can have.
double smallest_sum(const Items& items, Quantity quantity);

}  // namespace neuronmm::fit
