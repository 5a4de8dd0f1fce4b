#pragma once
// A grammar describes which byte strings an answer may be. It consists of rules, and a rule of
// positions with edges between them. An edge reads a byte, reads nothing, or calls another rule.
// Rules may call each other recursively, so a grammar is a pushdown automaton.
//
// The compiler of schemas (serve/schema) builds grammars; Automaton (automaton.h) runs them. A
// grammar that grows beyond kMaxEdges stops growing, and its builder must check too_large().
// compile_schema() and its siblings (schema/schema_compiler.h) return an error for such a grammar.
//
// Nothing here checks its arguments. Ids must come from the same grammar, and set_root() must be
// called before a grammar is run.

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/grammar/budget.h"
#include "text/tokenizer/token_id.h"

namespace neuronmm::grammar {

using PositionId = int32_t;
using RuleId = int32_t;
using ByteSet = std::bitset<256>;

// A step from one position to another of the same rule.
struct Edge {
  enum class Kind : uint8_t { kBytes, kEmpty, kCall };
  Kind kind;
  uint8_t first, last;  // for kBytes: the range of bytes, one of which the edge reads
  RuleId callee;        // for kCall: the rule that is called
  PositionId target;
  int32_t next;  // the next edge of the same position, or -1
};

struct Rule {
  PositionId start, end;
};

class Grammar {
 public:
  // The largest number of edges of all rules together, and of positions. Functions that would add
  // more only set too_large(). Assumed: a grammar then takes at most 24 MiB.
  static constexpr int64_t kMaxEdges = int64_t{1} << 20;

  Grammar() = default;
  // Makes a grammar whose growth is charged to `budget`, until keep() is called. If the budget is
  // exceeded, the grammar counts as too large.
  explicit Grammar(Budget& budget) : budget_(&budget) {}
  // Says that the grammar is finished and may outlive its budget. Gives back unused memory.
  void keep();

  RuleId add_rule();
  PositionId add_position();
  void add_bytes(PositionId from, uint8_t first, uint8_t last, PositionId to);
  void add_empty(PositionId from, PositionId to);
  void add_call(PositionId from, RuleId callee, PositionId to);
  void add_text(PositionId from, std::string_view text, PositionId to);
  void set_root(RuleId root) { root_ = root; }
  // Sets the rule that reads any character of a JSON string, written as it is or escaped.
  void set_character(RuleId rule) { character_ = rule; }
  // Says which tokens the grammar names, in ascending order (token_symbols.h).
  void set_named_tokens(std::vector<text::TokenId> tokens) { named_tokens_ = std::move(tokens); }
  // Marks the positions in [first, last). Later calls must mark later positions. A string that ends
  // at a marked position must differ from the strings before it in its array (see UniqueStrings).
  void mark_unique(PositionId first, PositionId last) { unique_marks_.emplace_back(first, last); }

  // Lets a builder stop when it sees beforehand that the grammar would become too large.
  void set_too_large() { too_large_ = true; }
  bool too_large() const { return too_large_; }
  RuleId root() const { return root_; }
  RuleId character() const { return character_; }  // -1 if no such rule was set
  const std::vector<text::TokenId>& named_tokens() const { return named_tokens_; }
  const Rule& rule(RuleId id) const { return rules_[static_cast<size_t>(id)]; }
  bool has_unique_marks() const { return !unique_marks_.empty(); }
  bool is_marked_unique(PositionId position) const;
  int64_t rules() const { return std::ssize(rules_); }
  int64_t positions() const { return std::ssize(first_edges_); }
  int64_t edges() const { return std::ssize(edges_); }
  int64_t bytes() const;  // the memory in use

  // Calls on_edge(edge) for every edge of the position.
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
  void charge(int64_t bytes);

  Budget* budget_ = nullptr;
  std::vector<int32_t> first_edges_;  // by position, -1 for a position without edges
  std::vector<Edge> edges_;
  std::vector<Rule> rules_;
  std::vector<std::pair<PositionId, PositionId>> unique_marks_;  // in ascending order
  std::vector<text::TokenId> named_tokens_;
  RuleId root_ = -1, character_ = -1;
  bool too_large_ = false;
};

// A grammar with what the client should know about it.
struct CompiledGrammar {
  Grammar grammar;
  // Says in sentences where the grammar allows more than the schema: where branches of a oneOf
  // overlap, and where items may repeat.
  std::vector<std::string> notes;
};

inline constexpr int32_t kUnreachable = -1;
// Returns for every position how deep calls must nest, at least, on a path from the position to the
// end of its rule. Only the given bytes can be read. The depth is kUnreachable if there is no path.
// Automaton and the compiler of schemas use it to see which branches can be completed.
std::vector<int32_t> minimum_call_depths(const Grammar& grammar, const ByteSet& bytes);

}  // namespace neuronmm::grammar
