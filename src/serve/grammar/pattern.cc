#include "serve/grammar/pattern.h"

#include <algorithm>
#include <map>
#include <utility>

#include "serve/grammar/pattern_syntax.h"

namespace neuronmm::grammar {
namespace {

constexpr int64_t kMaxNodes = 200'000;  // the largest number of nodes of an Nfa. Assumed
// The largest number of nodes and edges that the subset construction of one pattern visits.
// Assumed: it takes less than the budget of a request, so that a request may have several patterns.
constexpr int64_t kMaxSubsetWork = 8'000'000;

struct NfaEdge {
  const CharacterSet* set;  // of a node of the pattern, which outlives the automaton
  int32_t target;
};
struct NfaNode {
  std::vector<NfaEdge> edges;
  // Targets that are reached without reading. Those in `begin` and `end` only count at the
  // beginning and at the end of the text.
  std::vector<int32_t> empty, begin, end;
};

// A nondeterministic automaton by Thompson's construction, in which each piece of the pattern leads
// from one node to another. If it is too large, or if the budget is exceeded, it is incomplete.
class Nfa {
 public:
  // Builds the automaton of "any* pattern any*", since the match may be anywhere in the text.
  // `pattern` must outlive it.
  Nfa(const PatternNode& pattern, Budget& budget) : budget_(budget) {
    start_ = add_node();
    const int32_t inside = add_node(), after = add_node();
    end_ = add_node();
    edge(start_, all_, start_);
    link(start_, inside);
    add_piece(pattern, inside, after);
    link(after, end_);
    edge(end_, all_, end_);
  }
  Nfa(const Nfa&) = delete;
  Nfa& operator=(const Nfa&) = delete;

  bool too_large() const { return too_large_; }
  int32_t start() const { return start_; }
  int32_t end() const { return end_; }
  const NfaNode& node(int32_t id) const { return nodes_[static_cast<size_t>(id)]; }
  size_t size() const { return nodes_.size(); }

 private:
  // The memory of an edge or a link with its share of the vector, which may grow to twice its need,
  // in bytes. Assumed.
  static constexpr int64_t kEdgeBytes = 48;

  bool is_done() const { return too_large_ || !budget_.ok(); }
  int32_t add_node() {
    if (std::ssize(nodes_) >= kMaxNodes) too_large_ = true;
    if (!budget_.allocate(2 * sizeof(NfaNode)) || too_large_) return 0;
    nodes_.emplace_back();
    return static_cast<int32_t>(nodes_.size() - 1);
  }
  NfaNode& at(int32_t id) { return nodes_[static_cast<size_t>(id)]; }
  void link(int32_t from, int32_t to) {
    if (budget_.allocate(kEdgeBytes)) at(from).empty.push_back(to);
  }
  void edge(int32_t from, const CharacterSet& set, int32_t to) {
    if (budget_.allocate(kEdgeBytes)) at(from).edges.push_back({&set, to});
  }

  void add_piece(const PatternNode& node, int32_t from, int32_t to) {
    if (is_done()) return;
    switch (node.kind) {
      case PatternNode::Kind::kCharacter:
        return edge(from, node.set, to);
      case PatternNode::Kind::kBegin:
        if (budget_.allocate(kEdgeBytes)) at(from).begin.push_back(to);
        return;
      case PatternNode::Kind::kEnd:
        if (budget_.allocate(kEdgeBytes)) at(from).end.push_back(to);
        return;
      case PatternNode::Kind::kAlternatives:
        for (const PatternNode& child : node.children) add_piece(child, from, to);
        return;
      case PatternNode::Kind::kSequence:
        for (const PatternNode& child : node.children) {
          const int32_t next = add_node();
          add_piece(child, from, next);
          from = next;
        }
        return link(from, to);
      case PatternNode::Kind::kRepeat:
        return repeat(node, from, to);
      case PatternNode::Kind::kLookahead:
        NMM_CHECK(false);  // language_of() has taken out or refused lookaheads
    }
  }

  void repeat(const PatternNode& node, int32_t from, int32_t to) {
    const PatternNode& child = node.children.front();
    const auto once = [&](int32_t at) {
      const int32_t next = add_node();
      add_piece(child, at, next);
      return next;
    };
    for (int64_t i = 0; i < node.minimum && !is_done(); ++i) from = once(from);
    if (!node.maximum) {
      const int32_t head = add_node();
      link(from, head);
      link(once(head), head);
      return link(head, to);
    }
    for (int64_t i = node.minimum; i < *node.maximum && !is_done(); ++i) {
      link(from, to);
      from = once(from);
    }
    link(from, to);
  }

  const CharacterSet all_ = CharacterSet::all();
  Budget& budget_;
  std::vector<NfaNode> nodes_;
  int32_t start_ = 0, end_ = 0;
  bool too_large_ = false;
};

using Subset = std::vector<int32_t>;  // nodes in ascending order

// The subset construction. ^ matches only in the start state. A state accepts if the end node can
// be reached from it when $ matches.
class Determinizer {
 public:
  Determinizer(const Nfa& nfa, Budget& budget) : nfa_(nfa), budget_(budget), seen_(nfa.size(), 0) {}

  Result<StringLanguage> run() {
    Subset start = {nfa_.start()};
    close(start, true, false);
    (void)state_number(std::move(start), true);
    int64_t edges = 0;
    for (size_t i = 0; i < subsets_.size(); ++i) {
      expand(i);
      edges += std::ssize(states_[i].edges);
      if (!budget_.ok()) return budget_.error();
      if (std::ssize(subsets_) > StringLanguage::kMaxStates || edges > StringLanguage::kMaxEdges ||
          work_ > kMaxSubsetWork)
        return fail("{}", kAutomatonTooLarge);
    }
    return StringLanguage(std::move(states_));
  }

 private:
  // An edge of a subset, for one range of its characters.
  struct RangeEdge {
    CharacterRange range;
    int32_t target;
  };
  // The memory of a state in bytes: its subset as the key of a map, and its place in the tables.
  // Assumed.
  static constexpr int64_t kStateBytes = 160;

  bool work(int64_t steps) {
    work_ += steps;
    return budget_.spend(steps) && work_ <= kMaxSubsetWork;
  }

  void close(Subset& subset, bool at_begin, bool at_end) {
    ++round_;
    for (const int32_t node : subset) seen_[static_cast<size_t>(node)] = round_;
    const auto add = [&](const std::vector<int32_t>& targets) {
      for (const int32_t next : targets) {
        if (std::exchange(seen_[static_cast<size_t>(next)], round_) != round_)
          subset.push_back(next);
      }
      work(std::ssize(targets));
    };
    for (size_t i = 0; i < subset.size(); ++i) {
      const NfaNode& node = nfa_.node(subset[i]);
      add(node.empty);
      if (at_begin) add(node.begin);
      if (at_end) add(node.end);
    }
    work(std::ssize(subset));
    std::sort(subset.begin(), subset.end());
  }

  bool accepts(Subset subset, bool at_begin) {
    close(subset, at_begin, true);
    return std::binary_search(subset.begin(), subset.end(), nfa_.end());
  }

  static void sort_unique(Subset& subset) {
    std::sort(subset.begin(), subset.end());
    subset.erase(std::unique(subset.begin(), subset.end()), subset.end());
  }

  int32_t state_number(Subset subset, bool at_begin) {
    const auto [found, is_new] = numbers_.emplace(std::make_pair(std::move(subset), at_begin),
                                                  static_cast<int32_t>(subsets_.size()));
    if (is_new) {
      const Subset& kept = found->first.first;
      budget_.allocate(kStateBytes + std::ssize(kept) * static_cast<int64_t>(sizeof(int32_t)));
      subsets_.push_back(&kept);
      states_.push_back({{}, accepts(kept, at_begin)});
    }
    return found->second;
  }

  // Adds the edges of a subset. All characters between two borders of ranges lead to the same
  // subset. The borders are visited in ascending order, with the edges whose range has begun and
  // not ended.
  void expand(size_t i) {
    const std::vector<RangeEdge> edges = edges_from(*subsets_[i]);
    std::vector<char32_t> borders;
    for (const RangeEdge& edge : edges) {
      borders.push_back(edge.range.first);
      borders.push_back(edge.range.last + 1);
    }
    std::sort(borders.begin(), borders.end());
    borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
    std::vector<RangeEdge> open;
    auto begins = edges.begin();
    for (size_t k = 0; k + 1 < borders.size(); ++k) {
      std::erase_if(open, [&](const RangeEdge& edge) { return edge.range.last < borders[k]; });
      for (; begins != edges.end() && begins->range.first == borders[k]; ++begins)
        open.push_back(*begins);
      if (!work(1 + std::ssize(open))) return;
      if (open.empty()) continue;
      Subset next;
      for (const RangeEdge& edge : open) next.push_back(edge.target);
      sort_unique(next);
      close(next, false, false);
      const int32_t target = state_number(std::move(next), false);
      append(states_[i].edges, {borders[k], borders[k + 1] - 1}, target);
    }
  }

  // Returns the edges of the nodes in a subset, in ascending order of their first characters.
  std::vector<RangeEdge> edges_from(const Subset& subset) {
    std::vector<RangeEdge> edges;
    for (const int32_t node : subset) {
      for (const NfaEdge& edge : nfa_.node(node).edges) {
        if (!work(edge.set->size())) return edges;
        for (const CharacterRange range : edge.set->ranges()) edges.push_back({range, edge.target});
      }
    }
    std::ranges::sort(edges, {}, [](const RangeEdge& edge) { return edge.range.first; });
    return edges;
  }

  void append(std::vector<StringLanguage::Edge>& edges, CharacterRange range, int32_t target) {
    if (!edges.empty() && edges.back().target == target &&
        edges.back().range.last + 1 == range.first) {
      edges.back().range.last = range.last;
    } else {
      budget_.allocate(2 * sizeof(StringLanguage::Edge));
      edges.push_back({range, target});
    }
  }

  const Nfa& nfa_;
  Budget& budget_;
  std::vector<int32_t> seen_;  // by node: the last round in which close() met it
  int32_t round_ = 0;
  int64_t work_ = 0;
  std::map<std::pair<Subset, bool>, int32_t> numbers_;
  std::vector<const Subset*> subsets_;  // the keys of numbers_ by state number
  std::vector<StringLanguage::State> states_;
};

// Moves to `lookaheads` the lookaheads that follow a ^ before anything is read. Each of them is a
// condition on the whole text. `after_begin` says whether a ^ was met. Returns true as long as only
// ^ and lookaheads were met.
bool take_leading_lookaheads(PatternNode& node, bool& after_begin,
                             std::vector<PatternNode>& lookaheads) {
  using Kind = PatternNode::Kind;
  if (node.kind == Kind::kBegin) {
    after_begin = true;
    return true;
  }
  if (node.kind == Kind::kLookahead && after_begin) {
    lookaheads.push_back(std::move(node));
    node = PatternNode{Kind::kSequence, {}, {}, 0, {}};
    return true;
  }
  return node.kind == Kind::kSequence &&
         std::ranges::all_of(node.children, [&](PatternNode& child) {
           return take_leading_lookaheads(child, after_begin, lookaheads);
         });
}

Status refuse_lookaheads(const PatternNode& node) {
  if (node.kind == PatternNode::Kind::kLookahead) {
    return fail(
        "lookaround {:?} at byte {} is not supported: only behind a ^ that begins the pattern",
        node.negative ? "(?!" : "(?=", node.at);
  }
  for (const PatternNode& child : node.children) NMM_TRY(refuse_lookaheads(child));
  return {};
}

Result<StringLanguage> language_of(PatternNode tree, Budget& budget) {
  bool after_begin = false;
  std::vector<PatternNode> lookaheads;
  take_leading_lookaheads(tree, after_begin, lookaheads);
  NMM_TRY(refuse_lookaheads(tree));
  const Nfa nfa(tree, budget);
  if (!budget.ok()) return budget.error();
  if (nfa.too_large()) return fail("{}", kAutomatonTooLarge);
  NMM_ASSIGN(StringLanguage language, Determinizer(nfa, budget).run());
  for (PatternNode& lookahead : lookaheads) {
    PatternNode from_begin{PatternNode::Kind::kSequence, {}, {}, 0, {}};
    from_begin.children.push_back({PatternNode::Kind::kBegin, {}, {}, 0, {}});
    from_begin.children.push_back(std::move(lookahead.children.front()));
    NMM_ASSIGN(StringLanguage ahead, language_of(std::move(from_begin), budget));
    if (lookahead.negative) {
      NMM_ASSIGN(ahead, ahead.complement(budget));
    }
    NMM_ASSIGN(language, language.intersect(ahead, budget));
  }
  return language;
}

}  // namespace

Result<StringLanguage> compile_pattern(std::string_view pattern, Budget& budget) {
  Budget::Scratch scratch(budget);
  NMM_ASSIGN(PatternNode tree, parse_pattern(pattern, budget));
  NMM_ASSIGN(StringLanguage language, language_of(std::move(tree), budget));
  scratch.keep(language.bytes());
  return language;
}

Result<StringLanguage> compile_pattern(std::string_view pattern) {
  Budget budget;
  return compile_pattern(pattern, budget);
}

}  // namespace neuronmm::grammar
