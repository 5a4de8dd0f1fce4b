#include "serve/grammar/grammar.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace neuronmm::grammar {

void Grammar::keep() {
  budget_ = nullptr;
  first_edges_.shrink_to_fit();
  edges_.shrink_to_fit();
  rules_.shrink_to_fit();
}

int64_t Grammar::bytes() const {
  return std::ssize(first_edges_) * static_cast<int64_t>(sizeof(int32_t)) +
         std::ssize(edges_) * static_cast<int64_t>(sizeof(Edge)) +
         std::ssize(rules_) * static_cast<int64_t>(sizeof(Rule));
}

// A growing vector may have room for twice its items, and leaves its former memory behind.
void Grammar::charge(int64_t bytes) {
  if (budget_ != nullptr && !budget_->allocate(2 * bytes)) too_large_ = true;
}

RuleId Grammar::add_rule() {
  const PositionId start = add_position(), end = add_position();
  charge(sizeof(Rule));
  rules_.push_back({start, end});
  return static_cast<RuleId>(rules_.size() - 1);
}

PositionId Grammar::add_position() {
  if (std::ssize(first_edges_) >= kMaxEdges) too_large_ = true;
  charge(sizeof(int32_t));
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
  charge(sizeof(Edge));
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
      : grammar_(grammar),
        bytes_(bytes),
        depths_(static_cast<size_t>(grammar.positions()), kUnreachable),
        rule_of_start_(depths_.size(), -1),
        into_(depths_.size()),
        callers_(static_cast<size_t>(grammar.rules())) {
    for_each_readable_edge([&](PositionId, const Edge& edge) {
      into_.count(edge.target);
      if (edge.kind == Edge::Kind::kCall) callers_.count(edge.callee);
    });
    into_.allot();
    callers_.allot();
    for_each_readable_edge([&](PositionId from, const Edge& edge) {
      into_.add(edge.target, {from, edge.callee});
      if (edge.kind == Edge::Kind::kCall) callers_.add(edge.callee, {from, edge.target});
    });
    for (RuleId rule = 0; rule < grammar.rules(); ++rule) {
      rule_of_start_[static_cast<size_t>(grammar.rule(rule).start)] = rule;
      offer(grammar.rule(rule).end, 0);
    }
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

  // Lists of items by key, in one array. All items are counted before the first one is added.
  template <typename Item>
  class Lists {
   public:
    explicit Lists(size_t keys) : ends_(keys + 1) {}
    void count(int32_t key) { ++ends_[static_cast<size_t>(key) + 1]; }
    // Makes room for the counted items. Afterwards ends_[key] is where the list of the key begins,
    // and add() moves it to where the list ends.
    void allot() {
      for (size_t key = 1; key < ends_.size(); ++key) ends_[key] += ends_[key - 1];
      items_.resize(static_cast<size_t>(ends_.back()));
    }
    void add(int32_t key, Item item) {
      items_[static_cast<size_t>(ends_[static_cast<size_t>(key)]++)] = item;
    }
    std::span<const Item> of(int32_t key) const {
      const auto at = static_cast<size_t>(key);
      const auto begin = static_cast<size_t>(at == 0 ? 0 : ends_[at - 1]);
      return std::span(items_).subspan(begin, static_cast<size_t>(ends_[at]) - begin);
    }

   private:
    std::vector<int32_t> ends_;  // by key
    std::vector<Item> items_;
  };

  template <typename OnEdge>
  void for_each_readable_edge(const OnEdge& on_edge) const {
    for (PositionId from = 0; from < grammar_.positions(); ++from) {
      grammar_.for_each_edge(from, [&](const Edge& edge) {
        if (is_readable(edge)) on_edge(from, edge);
      });
    }
  }

  bool is_readable(const Edge& edge) const {
    if (edge.kind != Edge::Kind::kBytes) return true;
    for (int byte = edge.first; byte <= edge.last; ++byte) {
      if (bytes_[static_cast<size_t>(byte)]) return true;
    }
    return false;
  }

  void offer(PositionId position, int32_t depth) {
    if (depths_[static_cast<size_t>(position)] != kUnreachable) return;
    if (std::ssize(buckets_) <= depth) buckets_.resize(static_cast<size_t>(depth) + 1);
    buckets_[static_cast<size_t>(depth)].push_back(position);
  }

  void settle(PositionId position) {
    const int32_t depth = depths_[static_cast<size_t>(position)];
    for (const Source& source : into_.of(position)) {
      if (source.callee < 0) {
        offer(source.from, depth);
      } else if (const int32_t inner = start_depth(source.callee); inner != kUnreachable) {
        offer(source.from, std::max(depth, inner + 1));
      }
    }
    const RuleId rule = rule_of_start_[static_cast<size_t>(position)];
    if (rule < 0) return;
    for (const Caller& caller : callers_.of(rule)) {
      const int32_t rest = depths_[static_cast<size_t>(caller.target)];
      if (rest != kUnreachable) offer(caller.from, std::max(rest, depth + 1));
    }
  }

  int32_t start_depth(RuleId rule) const {
    return depths_[static_cast<size_t>(grammar_.rule(rule).start)];
  }

  const Grammar& grammar_;
  const ByteSet& bytes_;
  std::vector<int32_t> depths_;
  std::vector<RuleId> rule_of_start_;
  Lists<Source> into_;     // by target
  Lists<Caller> callers_;  // by rule
  std::vector<std::vector<PositionId>> buckets_;
};

}  // namespace

std::vector<int32_t> minimum_call_depths(const Grammar& grammar, const ByteSet& bytes) {
  return CallDepthSearch(grammar, bytes).run();
}

}  // namespace neuronmm::grammar
