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

bool Grammar::is_marked(PositionId position) const {
  const auto behind =
      std::ranges::upper_bound(marks_, position, {}, &std::pair<PositionId, PositionId>::first);
  return behind != marks_.begin() && position < std::prev(behind)->second;
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

// Finds the heights of all positions in ascending order with Dijkstra's algorithm. An edge that
// reads gives its position the height of its target. A call gives it the larger of the target's
// height and the called rule's height plus one. The smallest height of all edges counts. Heights
// are small whole numbers, so one bucket per height replaces the priority queue.
class HeightSearch {
 public:
  HeightSearch(const Grammar& grammar, const ByteSet& bytes)
      : heights_(static_cast<size_t>(grammar.positions()), kNoWay),
        into_(heights_.size()),
        callers_(static_cast<size_t>(grammar.rules())),
        rule_of_start_(heights_.size(), -1) {
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
    for (size_t height = 0; height < buckets_.size(); ++height) {
      while (!buckets_[height].empty()) {
        const PositionId position = buckets_[height].back();
        buckets_[height].pop_back();
        int32_t& known = heights_[static_cast<size_t>(position)];
        if (known != kNoWay) continue;
        known = static_cast<int32_t>(height);
        settle(position);
      }
    }
    return std::move(heights_);
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
    into_[static_cast<size_t>(edge.target)].push_back({from, edge.callee});
    if (edge.kind == Edge::Kind::kCall)
      callers_[static_cast<size_t>(edge.callee)].push_back({from, edge.target});
  }

  void offer(PositionId position, int32_t height) {
    if (heights_[static_cast<size_t>(position)] != kNoWay) return;
    if (std::ssize(buckets_) <= height) buckets_.resize(static_cast<size_t>(height) + 1);
    buckets_[static_cast<size_t>(height)].push_back(position);
  }

  void settle(PositionId position) {
    const int32_t height = heights_[static_cast<size_t>(position)];
    for (const Source& source : into_[static_cast<size_t>(position)]) {
      if (source.callee < 0) {
        offer(source.from, height);
      } else if (const int32_t inner = start_height(source.callee); inner != kNoWay) {
        offer(source.from, std::max(height, inner + 1));
      }
    }
    const RuleId rule = rule_of_start_[static_cast<size_t>(position)];
    if (rule < 0) return;
    for (const Caller& caller : callers_[static_cast<size_t>(rule)]) {
      const int32_t rest = heights_[static_cast<size_t>(caller.target)];
      if (rest != kNoWay) offer(caller.from, std::max(rest, height + 1));
    }
  }

  int32_t start_height(RuleId rule) const {
    return heights_[static_cast<size_t>(starts_[static_cast<size_t>(rule)])];
  }

  std::vector<int32_t> heights_;
  std::vector<std::vector<Source>> into_;     // by target
  std::vector<std::vector<Caller>> callers_;  // by rule
  std::vector<RuleId> rule_of_start_;
  std::vector<PositionId> starts_;
  std::vector<std::vector<PositionId>> buckets_;
};

}  // namespace

std::vector<int32_t> call_heights(const Grammar& grammar, const ByteSet& bytes) {
  return HeightSearch(grammar, bytes).run();
}

}  // namespace neuronmm::grammar
