#pragma once
// A language of byte strings as data: rules that consist of positions, and edges between positions
// that read a byte, read nothing, or read what another rule describes. Rules may call each other
// recursively, so a grammar is a pushdown automaton. Code builds it; Automaton runs it.

#include <bitset>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace neuronmm::grammar {

using PositionId = int32_t;
using RuleId = int32_t;
using ByteSet = std::bitset<256>;

struct Edge {
  enum class Kind : uint8_t { kBytes, kEmpty, kCall };
  Kind kind;
  uint8_t first, last;  // kBytes: the range that it reads
  RuleId callee;        // kCall
  PositionId target;
  int32_t next;  // the next edge of the same position; -1: none
};

struct Rule {
  PositionId start, end;
};

class Grammar {
 public:
  // What all rules together may have. Building beyond it does nothing but set too_large().
  static constexpr int64_t kMaxEdges = int64_t{1} << 20;

  RuleId add_rule();
  PositionId add_position();
  void add_bytes(PositionId from, uint8_t first, uint8_t last, PositionId to);
  void add_empty(PositionId from, PositionId to);
  void add_call(PositionId from, RuleId callee, PositionId to);
  void add_text(PositionId from, std::string_view text, PositionId to);
  void set_root(RuleId root) { root_ = root; }
  // The rule that reads one character of a free string, each that JSON has as it is among them.
  void set_character(RuleId rule) { character_ = rule; }
  // Of the positions in [first, last): a string that ends there must differ from those before it in
  // its array (UniqueStrings).
  void mark(PositionId first, PositionId last) { marks_.emplace_back(first, last); }

  void set_too_large() { too_large_ = true; }
  bool too_large() const { return too_large_; }
  RuleId root() const { return root_; }
  RuleId character() const { return character_; }  // -1: there is none
  const Rule& rule(RuleId id) const { return rules_[static_cast<size_t>(id)]; }
  bool has_marks() const { return !marks_.empty(); }
  bool is_marked(PositionId position) const;
  int64_t rules() const { return std::ssize(rules_); }
  int64_t positions() const { return std::ssize(first_edges_); }
  int64_t edges() const { return std::ssize(edges_); }

  // on_edge(edge) for every edge of the position.
  template <typename OnEdge>
  void for_each_edge(PositionId position, const OnEdge& on_edge) const {
    for (int32_t i = first_edges_[static_cast<size_t>(position)]; i >= 0;) {
      const Edge& edge = edges_[static_cast<size_t>(i)];
      on_edge(edge);
      i = edge.next;
    }
  }

 private:
  void add_edge(PositionId from, Edge edge);

  std::vector<int32_t> first_edges_;  // by position; -1: none
  std::vector<Edge> edges_;
  std::vector<Rule> rules_;
  std::vector<std::pair<PositionId, PositionId>> marks_;  // ascending
  RuleId root_ = -1, character_ = -1;
  bool too_large_ = false;
};

// For every position, how many calls deep the shortest way from it to the end of its rule goes when
// only these bytes can be read; kNoWay where there is none.
inline constexpr int32_t kNoWay = -1;
std::vector<int32_t> call_heights(const Grammar& grammar, const ByteSet& bytes);

}  // namespace neuronmm::grammar
