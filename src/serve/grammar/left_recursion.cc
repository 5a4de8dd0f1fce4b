#include "serve/grammar/left_recursion.h"

#include <algorithm>

namespace neuronmm::grammar {
namespace {

// For each rule, the rules that it may call before it reads a byte.
class FirstCalls {
 public:
  explicit FirstCalls(const Grammar& grammar)
      : grammar_(grammar),
        // Without any byte, the end of a rule is reachable only for texts that are empty.
        depths_(minimum_call_depths(grammar, ByteSet())),
        is_visited_(depths_.size(), false) {
    for (RuleId rule = 0; rule < grammar.rules(); ++rule) {
      calls_.emplace_back();
      visit(grammar.rule(rule).start);
      while (!queue_.empty()) {
        const PositionId position = queue_.back();
        queue_.pop_back();
        grammar.for_each_edge(position, [&](const Edge& edge) { follow(edge); });
      }
    }
  }

  const std::vector<RuleId>& of(RuleId rule) const { return calls_[static_cast<size_t>(rule)]; }

 private:
  void visit(PositionId position) {
    if (is_visited_[static_cast<size_t>(position)]) return;
    is_visited_[static_cast<size_t>(position)] = true;
    queue_.push_back(position);
  }
  void follow(const Edge& edge) {
    if (edge.kind == Edge::Kind::kEmpty) visit(edge.target);
    if (edge.kind != Edge::Kind::kCall) return;
    calls_.back().push_back(edge.callee);
    const PositionId start = grammar_.rule(edge.callee).start;
    if (depths_[static_cast<size_t>(start)] != kUnreachable) visit(edge.target);
  }

  const Grammar& grammar_;
  const std::vector<int32_t> depths_;
  std::vector<bool> is_visited_;
  std::vector<PositionId> queue_;
  std::vector<std::vector<RuleId>> calls_;  // by rule
};

}  // namespace

// A depth-first search. A call to a rule that is still on the path closes a circle.
std::vector<RuleId> find_left_recursion(const Grammar& grammar) {
  enum class State { kNew, kOnPath, kDone };
  const FirstCalls calls(grammar);
  std::vector<State> states(static_cast<size_t>(grammar.rules()), State::kNew);
  std::vector<size_t> next(states.size(), 0);  // by rule: the call to follow next
  for (RuleId root = 0; root < grammar.rules(); ++root) {
    if (states[static_cast<size_t>(root)] != State::kNew) continue;
    std::vector<RuleId> path = {root};
    states[static_cast<size_t>(root)] = State::kOnPath;
    while (!path.empty()) {
      const auto rule = static_cast<size_t>(path.back());
      const std::vector<RuleId>& callees = calls.of(path.back());
      if (next[rule] == callees.size()) {
        states[rule] = State::kDone;
        path.pop_back();
        continue;
      }
      const RuleId callee = callees[next[rule]++];
      State& state = states[static_cast<size_t>(callee)];
      if (state == State::kOnPath) return {std::ranges::find(path, callee), path.end()};
      if (state == State::kNew) path.push_back(callee);
      if (state == State::kNew) state = State::kOnPath;
    }
  }
  return {};
}

}  // namespace neuronmm::grammar
