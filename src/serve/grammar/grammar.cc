#include "serve/grammar/grammar.h"

#include <algorithm>
#include <iterator>

namespace neuronmm::grammar {

RuleId Grammar::add_rule() {
  const PositionId start = add_position(), end = add_position();
  rules_.push_back({start, end});
  return static_cast<RuleId>(rules_.size() - 1);
}

PositionId Grammar::add_position() {
  if (std::ssize(first_edges_) >= kMaxEdges) too_large_ = true;
  if (too_large_ && !first_edges_.empty()) return 0;
  first_edges_.push_back(-1);
  return static_cast<PositionId>(first_edges_.size() - 1);
}

bool Grammar::is_marked_unique(PositionId position) const {
  const auto after = std::ranges::upper_bound(unique_marks_, position, {},
                                              &std::pair<PositionId, PositionId>::first);
  return after != unique_marks_.begin() && position < std::prev(after)->second;
}

void Grammar::add_edge(PositionId from, Edge edge) {
  if (std::ssize(edges_) >= kMaxEdges) too_large_ = true;
  if (too_large_) return;
  int32_t& first = first_edges_[static_cast<size_t>(from)];
  edge.next = first;
  first = static_cast<int32_t>(edges_.size());
  edges_.push_back(edge);
}

void Grammar::add_bytes(PositionId from, uint8_t first, uint8_t last, PositionId to) {
  add_edge(from, {Edge::Kind::kBytes, first, last, -1, to, -1});
}

void Grammar::add_empty(PositionId from, PositionId to) {
  add_edge(from, {Edge::Kind::kEmpty, 0, 0, -1, to, -1});
}

void Grammar::add_call(PositionId from, RuleId callee, PositionId to) {
  add_edge(from, {Edge::Kind::kCall, 0, 0, callee, to, -1});
}

void Grammar::add_text(PositionId from, std::string_view text, PositionId to) {
  if (text.empty()) return add_empty(from, to);
  for (size_t i = 0; i < text.size(); ++i) {
    const PositionId next = i + 1 == text.size() ? to : add_position();
    const auto byte = static_cast<uint8_t>(text[i]);
    add_bytes(from, byte, byte, next);
    from = next;
  }
}

namespace {

// Finds the depths of all positions in ascending order with Dijkstra's algorithm. An edge that
// reads gives its position the depth of its target. A call gives it the larger of the target's
// depth and the called rule's depth plus one. The smallest depth of all edges counts. Depths
// are small whole numbers, so one bucket per depth replaces the priority queue.
class CallDepthSearch {
 public:
  CallDepthSearch(const Grammar& grammar, const ByteSet& bytes)
      : depths_(static_cast<size_t>(grammar.positions()), kUnreachable),
        edges_into_(depths_.size()),
        callers_(static_cast<size_t>(grammar.rules())),
        rule_of_start_(depths_.size(), -1) {
    for (PositionId from = 0; from < grammar.positions(); ++from) {
      grammar.for_each_edge(from, [&](const Edge& edge) { reverse(from, edge, bytes); });
    }
    for (RuleId rule = 0; rule < grammar.rules(); ++rule) {
      rule_of_start_[static_cast<size_t>(grammar.rule(rule).start)] = rule;
      offer(grammar.rule(rule).end, 0);
    }
    starts_.resize(callers_.size());
    for (RuleId rule = 0; rule < grammar.rules(); ++rule)
      starts_[static_cast<size_t>(rule)] = grammar.rule(rule).start;
  }

  std::vector<int32_t> run() && {
    for (size_t depth = 0; depth < buckets_.size(); ++depth) {
      while (!buckets_[depth].empty()) {
        const PositionId position = buckets_[depth].back();
        buckets_[depth].pop_back();
        int32_t& known = depths_[static_cast<size_t>(position)];
        if (known != kUnreachable) continue;
        known = static_cast<int32_t>(depth);
        settle(position);
      }
    }
    return std::move(depths_);
  }

 private:
  struct Source {
    PositionId from;
    RuleId callee;  // -1 for an edge that reads a byte or nothing
  };
  struct Caller {
    PositionId from, target;
  };

  void reverse(PositionId from, const Edge& edge, const ByteSet& bytes) {
    if (edge.kind == Edge::Kind::kBytes) {
      bool readable = false;
      for (int byte = edge.first; byte <= edge.last; ++byte)
        readable = readable || bytes[static_cast<size_t>(byte)];
      if (!readable) return;
    }
    edges_into_[static_cast<size_t>(edge.target)].push_back({from, edge.callee});
    if (edge.kind == Edge::Kind::kCall)
      callers_[static_cast<size_t>(edge.callee)].push_back({from, edge.target});
  }

  void offer(PositionId position, int32_t depth) {
    if (depths_[static_cast<size_t>(position)] != kUnreachable) return;
    if (std::ssize(buckets_) <= depth) buckets_.resize(static_cast<size_t>(depth) + 1);
    buckets_[static_cast<size_t>(depth)].push_back(position);
  }

  void settle(PositionId position) {
    const int32_t depth = depths_[static_cast<size_t>(position)];
    for (const Source& source : edges_into_[static_cast<size_t>(position)]) {
      if (source.callee < 0) {
        offer(source.from, depth);
      } else if (const int32_t inner = start_depth(source.callee); inner != kUnreachable) {
        offer(source.from, std::max(depth, inner + 1));
      }
    }
    const RuleId rule = rule_of_start_[static_cast<size_t>(position)];
    if (rule < 0) return;
    for (const Caller& caller : callers_[static_cast<size_t>(rule)]) {
      const int32_t rest = depths_[static_cast<size_t>(caller.target)];
      if (rest != kUnreachable) offer(caller.from, std::max(rest, depth + 1));
    }
  }

  int32_t start_depth(RuleId rule) const {
    return depths_[static_cast<size_t>(starts_[static_cast<size_t>(rule)])];
  }

  std::vector<int32_t> depths_;
  std::vector<std::vector<Source>> edges_into_;  // by target
  std::vector<std::vector<Caller>> callers_;     // by rule
  std::vector<RuleId> rule_of_start_;
  std::vector<PositionId> starts_;
  std::vector<std::vector<PositionId>> buckets_;
};

}  // namespace

std::vector<int32_t> minimum_call_depths(const Grammar& grammar, const ByteSet& bytes) {
  return CallDepthSearch(grammar, bytes).run();
}

}  // namespace neuronmm::grammar
