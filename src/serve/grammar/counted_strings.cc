#include "serve/grammar/counted_strings.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace neuronmm::grammar {
namespace {

using States = std::vector<StringLanguage::State>;

// The edges that can_count() follows in one step of the budget. Assumed.
constexpr int64_t kEdgesPerStep = 4;

// Finds the strongly connected components of an automaton with Tarjan's algorithm. The algorithm
// uses a stack of its own instead of recursion.
class Loops {
 public:
  explicit Loops(const States& states)
      : states_(states), order_(states.size(), 0), low_(states.size(), 0), loops_(states.size()) {
    visit(0);
  }

  // Returns whether the state can be reached again from itself.
  bool has(int32_t state) const { return loops_[static_cast<size_t>(state)]; }
  // Returns all states in an order in which each state follows the states that it leads to. States
  // of one loop are in any order.
  const std::vector<int32_t>& last_first() const { return finished_; }

 private:
  struct Visit {
    int32_t state;
    size_t edge = 0;
  };

  void visit(int32_t start) {
    std::vector<Visit> visits;
    const auto enter = [&](int32_t state) {
      order_[static_cast<size_t>(state)] = low_[static_cast<size_t>(state)] = ++visited_;
      open_.push_back(state);
      visits.push_back({state});
    };
    enter(start);
    while (!visits.empty()) {
      const auto from = static_cast<size_t>(visits.back().state);
      if (visits.back().edge == states_[from].edges.size()) {
        if (low_[from] == order_[from]) close(visits.back().state);
        visits.pop_back();
        if (!visits.empty()) lower(static_cast<size_t>(visits.back().state), low_[from]);
        continue;
      }
      const int32_t target = states_[from].edges[visits.back().edge++].target;
      if (target == visits.back().state) loops_[from] = true;
      if (order_[static_cast<size_t>(target)] == 0) {
        enter(target);
      } else {
        lower(from, low_[static_cast<size_t>(target)]);
      }
    }
  }

  void lower(size_t state, int32_t to) { low_[state] = std::min(low_[state], to); }

  void close(int32_t root) {
    const bool has_others = open_.back() != root;
    for (int32_t state = -1; state != root;) {
      state = open_.back();
      open_.pop_back();
      finished_.push_back(state);
      low_[static_cast<size_t>(state)] = kClosed;
      if (has_others) loops_[static_cast<size_t>(state)] = true;
    }
  }

  static constexpr int32_t kClosed = 1 << 30;  // larger than any order, so it lowers nothing
  const States& states_;
  std::vector<int32_t> order_, low_, open_, finished_;
  std::vector<bool> loops_;
  int32_t visited_ = 0;
};

// Builds an automaton whose states pair a state of the language with a count of characters. The
// count is never less than the number of characters read.
//
// Within loops, every character counts one. Between loops, for example in the digits of an IP
// address, the shortest path to the next loop or to the end is counted in advance. If the string
// takes a longer path, the difference is added when it leaves the shortest one. Counts between
// loops are also rounded up, so that only few different counts occur there.
class ApproximateCounter {
 public:
  // `max_pairs` bounds the number of pairs of states in loops, and also that of states between
  // loops.
  ApproximateCounter(const States& states, int64_t maximum, int64_t max_pairs, Budget& budget)
      : states_(states), budget_(budget), loops_(states), shortest_paths_(states.size(), 0) {
    int64_t within = 0, between = 0;
    for (const int32_t state : loops_.last_first()) {
      ++(loops_.has(state) ? within : between);
      const auto at = static_cast<size_t>(state);
      if (!loops_.has(state)) shortest_paths_[at] = find_shortest_path(states_[at]);
    }
    maximum_ = std::min(maximum, max_pairs / std::max<int64_t>(within, 1));
    step_ = 1 + between * maximum_ / max_pairs;
  }

  Result<StringLanguage> run() {
    (void)state_number({0, 0});
    for (size_t i = 0; i < counted_.size(); ++i) {
      const auto [from, count] = counted_[i];
      const auto& edges = states_[static_cast<size_t>(from)].edges;
      if (!budget_.allocate(kStateBytes + std::ssize(edges) * kEdgeBytes)) return budget_.error();
      for (const auto& edge : edges) {
        const int64_t next = count_at(from, count, edge.target);
        if (next > maximum_) continue;
        const int32_t target = state_number({edge.target, next});
        result_[i].edges.push_back({edge.range, target});
      }
    }
    return StringLanguage(std::move(result_));
  }

 private:
  using Counted = std::pair<int32_t, int64_t>;
  // The memory of a pair and of an edge, with their shares of the tables. Assumed.
  static constexpr int64_t kStateBytes = 200, kEdgeBytes = 2 * sizeof(StringLanguage::Edge) + 8;

  // Returns the length of the shortest path to the next loop or to the end. The character that
  // leads to the state is counted, too.
  int64_t find_shortest_path(const StringLanguage::State& state) const {
    if (state.accepting) return 1;
    int64_t shortest = StringLanguage::kMaxStates;
    for (const auto& edge : state.edges) shortest = std::min(shortest, shortest_path(edge.target));
    return shortest + 1;
  }
  // Returns the shortest path of a state between loops, and 0 for a state in a loop.
  int64_t shortest_path(int32_t state) const { return shortest_paths_[static_cast<size_t>(state)]; }

  // Returns the count after the step from one state to another.
  int64_t count_at(int32_t from, int64_t count, int32_t to) const {
    // Nothing was counted in advance at the start or in a loop.
    const bool is_between = from != 0 && !loops_.has(from);
    const int64_t not_taken = is_between ? shortest_path(from) - 1 : 0;
    if (loops_.has(to)) return count - not_taken + 1;
    const int64_t next = count - not_taken + shortest_path(to);
    return (next + step_ - 1) / step_ * step_;
  }

  int32_t state_number(Counted counted) {
    const auto [found, is_new] = numbers_.emplace(counted, static_cast<int32_t>(counted_.size()));
    if (is_new) {
      counted_.push_back(counted);
      result_.push_back({{}, states_[static_cast<size_t>(counted.first)].accepting});
    }
    return found->second;
  }

  const States& states_;
  Budget& budget_;
  const Loops loops_;
  std::vector<int64_t> shortest_paths_;  // shortest paths, by state
  // The largest count, and the number to whose multiples counts between loops are rounded up.
  int64_t maximum_, step_;
  std::map<Counted, int32_t> numbers_;
  std::vector<Counted> counted_;
  States result_;
};

}  // namespace

bool can_count(const StringLanguage& language, int64_t maximum, Budget& budget) {
  if (maximum >= StringLanguage::kMaxStates) return false;
  const States& states = language.states();
  int64_t pairs = 1;
  std::vector<int32_t> at = {0};
  std::vector<int64_t> seen(states.size(), -1);  // by state: the last length that reached it
  for (int64_t length = 0; length < maximum && !at.empty(); ++length) {
    std::vector<int32_t> next;
    for (const int32_t from : at) {
      const auto& edges = states[static_cast<size_t>(from)].edges;
      if (!budget.spend(1 + std::ssize(edges) / kEdgesPerStep)) return false;
      for (const auto& edge : edges) {
        if (std::exchange(seen[static_cast<size_t>(edge.target)], length) != length)
          next.push_back(edge.target);
      }
    }
    pairs += std::ssize(next);
    if (pairs > StringLanguage::kMaxStates) return false;
    at = std::move(next);
  }
  return true;
}

Result<StringLanguage> subset_up_to(const StringLanguage& language, int64_t maximum, int64_t states,
                                    Budget& budget) {
  return ApproximateCounter(language.states(), maximum, states, budget).run();
}

}  // namespace neuronmm::grammar
