#include "fit/knapsack.h"

#include <algorithm>
#include <cmath>

namespace neuronmm::fit {
namespace {

// The number of bisection steps per price, and of rounds over all prices. Both are large enough
// that the last ones change nothing.
constexpr int kBisections = 60, kPriceRounds = 12;
// At any higher price the sum of a quantity would be the smallest possible one, whatever it costs
// otherwise.
constexpr double kHighestPrice = 1e12;

class Search {
 public:
  Search(const Items& items, const Goal& goal) : items_(items), goal_(goal) {
    for (size_t k = 0; k < kQuantities; ++k) {
      if (k != goal.minimized && goal.limits[k] < kUnlimited) limited_.push_back(k);
    }
    // Prices are per whole limit, so that one scale fits all quantities.
    scale_ = 0.0;
    for (const auto& options : items_) {
      double most = 0.0;
      for (const Quantities& option : options) most = std::max(most, option[goal.minimized]);
      scale_ += most;
    }
    if (scale_ <= 0.0) scale_ = 1.0;
  }

  std::optional<Selection> run() {
    Selection selection = choose_at(prices_);
    for (int round = 0; round < kPriceRounds && !limited_.empty(); ++round) {
      const Quantities before = prices_;
      for (const size_t k : limited_) find_price(k);
      selection = choose_at(prices_);
      if (prices_ == before && fits(selection.sums)) break;
    }
    for (int attempt = 0; attempt < kBisections && !fits(selection.sums); ++attempt) {
      raise_violated_prices(selection.sums);
      selection = choose_at(prices_);
    }
    if (!fits(selection.sums)) return std::nullopt;
    while (improve(selection)) {
    }
    selection.bound = std::min(bound_, selection.sums[goal_.minimized]);
    return selection;
  }

 private:
  bool fits(const Quantities& sums) const {
    return std::ranges::all_of(limited_, [&](size_t k) { return sums[k] <= goal_.limits[k]; });
  }

  double priced_cost(const Quantities& option, const Quantities& prices) const {
    double sum = option[goal_.minimized];
    for (const size_t k : limited_) sum += prices[k] * option[k];
    return sum;
  }

  // Returns what every item chooses at the prices: the first of its cheapest options. Keeps the
  // best bound.
  Selection choose_at(const Quantities& prices) {
    Selection found;
    double bound = 0.0;
    for (const auto& options : items_) {
      size_t best = 0;
      double least = priced_cost(options[0], prices);
      for (size_t i = 1; i < options.size(); ++i) {
        const double price = priced_cost(options[i], prices);
        if (price < least) {
          least = price;
          best = i;
        }
      }
      bound += least;
      found.options.push_back(best);
      for (size_t k = 0; k < kQuantities; ++k) found.sums[k] += options[best][k];
    }
    for (const size_t k : limited_) bound -= prices[k] * goal_.limits[k];
    bound_ = std::max(bound_, bound);
    return found;
  }

  // Sets the lowest price of quantity k at which its limit holds while the other prices stay. If
  // the limit holds at no price, the highest price is set.
  void find_price(size_t k) {
    Quantities prices = prices_;
    const auto holds = [&](double price) {
      prices[k] = price * scale_ / std::max(goal_.limits[k], 1e-300);
      return choose_at(prices).sums[k] <= goal_.limits[k];
    };
    double low = 1e-12, high = kHighestPrice;
    if (holds(0.0)) {
      high = 0.0;
    } else {
      for (int i = 0; i < kBisections; ++i) {
        const double middle = std::sqrt(low * high);
        (holds(middle) ? high : low) = middle;
      }
    }
    prices_[k] = high * scale_ / std::max(goal_.limits[k], 1e-300);
  }

  void raise_violated_prices(const Quantities& sums) {
    for (const size_t k : limited_) {
      if (sums[k] <= goal_.limits[k]) continue;
      prices_[k] = std::max(2.0 * prices_[k], 1e-12 * scale_ / std::max(goal_.limits[k], 1e-300));
    }
  }

  // Exchanges the option of one item: the exchange that gains most for what it takes of the limits.
  // Returns false if no exchange gains.
  bool improve(Selection& selection) const {
    double best = 0.0;
    size_t best_item = 0, best_option = 0;
    for (size_t item = 0; item < items_.size(); ++item) {
      const Quantities& now = items_[item][selection.options[item]];
      for (size_t i = 0; i < items_[item].size(); ++i) {
        const Quantities& other = items_[item][i];
        const double gain = now[goal_.minimized] - other[goal_.minimized];
        if (gain <= 0.0) continue;
        double used = 1e-9;
        bool fit = true;
        for (const size_t k : limited_) {
          const double more = other[k] - now[k];
          fit = fit && selection.sums[k] + more <= goal_.limits[k];
          used += std::max(0.0, more) / goal_.limits[k];
        }
        if (!fit || gain / used <= best) continue;
        best = gain / used;
        best_item = item;
        best_option = i;
      }
    }
    if (best <= 0.0) return false;
    size_t& option = selection.options[best_item];
    for (size_t k = 0; k < kQuantities; ++k) {
      selection.sums[k] += items_[best_item][best_option][k] - items_[best_item][option][k];
    }
    option = best_option;
    return true;
  }

  const Items& items_;
  const Goal& goal_;
  std::vector<size_t> limited_;
  double scale_ = 1.0;
  Quantities prices_ = {};
  double bound_ = 0.0;
};

}  // namespace

std::optional<Selection> select(const Items& items, const Goal& goal) {
  return Search(items, goal).run();
}

double smallest_sum(const Items& items, Quantity quantity) {
  double sum = 0.0;
  for (const auto& options : items) {
    double least = kUnlimited;
    for (const Quantities& option : options) least = std::min(least, option[quantity]);
    sum += least;
  }
  return sum;
}

}  // namespace neuronmm::fit
