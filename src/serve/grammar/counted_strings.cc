#include "serve/grammar/counted_strings.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace neuronmm::grammar {
namespace {

using States = std::vector<StringLanguage::State>;

// Strongly connected components by Tarjan's algorithm, with a stack of its own.
class Loops {
 public:
  explicit Loops(const States& states)
      : states_(states), order_(states.size(), 0), low_(states.size(), 0), loops_(states.size()) {
    visit(0);
  }

  // Whether the state comes again after it.
  bool has(int32_t state) const { return loops_[static_cast<size_t>(state)]; }
  // Every state is behind those that it leads to, but for those of its loop.
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

  static constexpr int32_t kClosed = 1 << 30;  // lowers nothing
  const States& states_;
  std::vector<int32_t> order_, low_, open_, finished_;
  std::vector<bool> loops_;
  int32_t visited_ = 0;
};

// A state of the language with a count that is never below the characters read. Within loops each
// character counts one. Between loops (the digits of an address) the shortest way to the next loop
// or the end is counted before it is gone, a longer one where it leaves that, and counts are
// rounded up, so that few occur there.
class RoughCount {
 public:
  RoughCount(const States& states, int64_t maximum, int64_t of_kind)
      : states_(states), loops_(states), ways_(states.size(), 0) {
    int64_t within = 0, between = 0;
    for (const int32_t state : loops_.last_first()) {
      ++(loops_.has(state) ? within : between);
      const auto at = static_cast<size_t>(state);
      if (!loops_.has(state)) ways_[at] = shortest_way(states_[at]);
    }
    maximum_ = std::min(maximum, of_kind / std::max<int64_t>(within, 1));
    step_ = 1 + between * maximum_ / of_kind;
  }

  StringLanguage run() {
    (void)number({0, 0});
    for (size_t i = 0; i < counted_.size(); ++i) {
      const auto [from, count] = counted_[i];
      for (const auto& edge : states_[static_cast<size_t>(from)].edges) {
        const int64_t next = count_at(from, count, edge.target);
        if (next > maximum_) continue;
        const int32_t target = number({edge.target, next});
        result_[i].edges.push_back({edge.range, target});
      }
    }
    return StringLanguage(std::move(result_));
  }

 private:
  using Counted = std::pair<int32_t, int64_t>;

  // Characters until the next loop or the end, with the one that leads to the state.
  int64_t shortest_way(const StringLanguage::State& state) const {
    if (state.accepting) return 1;
    int64_t shortest = StringLanguage::kMaxStates;
    for (const auto& edge : state.edges) shortest = std::min(shortest, way(edge.target));
    return shortest + 1;
  }
  int64_t way(int32_t state) const { return ways_[static_cast<size_t>(state)]; }  // in loops: 0

  int64_t count_at(int32_t from, int64_t count, int32_t to) const {
    // The start is before all loops, and nothing is counted there, or in one.
    const bool is_between = from != 0 && !loops_.has(from);
    const int64_t not_gone = is_between ? way(from) - 1 : 0;
    if (loops_.has(to)) return count - not_gone + 1;
    const int64_t next = count - not_gone + way(to);
    return (next + step_ - 1) / step_ * step_;
  }

  int32_t number(Counted counted) {
    const auto [found, is_new] = numbers_.emplace(counted, static_cast<int32_t>(counted_.size()));
    if (is_new) {
      counted_.push_back(counted);
      result_.push_back({{}, states_[static_cast<size_t>(counted.first)].accepting});
    }
    return found->second;
  }

  const States& states_;
  const Loops loops_;
  std::vector<int64_t> ways_;  // between loops
  int64_t maximum_, step_;
  std::map<Counted, int32_t> numbers_;
  std::vector<Counted> counted_;
  States result_;
};

}  // namespace

bool can_count(const StringLanguage& language, int64_t maximum) {
  if (maximum >= StringLanguage::kMaxStates) return false;
  const States& states = language.states();
  int64_t pairs = 1;
  std::vector<int32_t> at = {0};
  std::vector<int64_t> seen(states.size(), -1);  // the last length with which it was reached
  for (int64_t length = 0; length < maximum && !at.empty(); ++length) {
    std::vector<int32_t> next;
    for (const int32_t from : at) {
      for (const auto& edge : states[static_cast<size_t>(from)].edges) {
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

StringLanguage some_up_to(const StringLanguage& language, int64_t maximum, int64_t states) {
  return RoughCount(language.states(), maximum, states).run();
}

}  // namespace neuronmm::grammar
