#pragma once
// A regular language of strings, stored as a deterministic automaton over Unicode characters.
// Patterns, formats, lengths, property names and numbers with bounds become string languages first.
// JsonSyntax (json_syntax.h) then adds them to a grammar as bytes.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/grammar/budget.h"
#include "serve/grammar/character_set.h"

namespace neuronmm::grammar {

class StringLanguage {
 public:
  // The largest automaton. Operations whose result would be larger return an error, as do those
  // that exceed their budget.
  static constexpr int64_t kMaxStates = 50'000, kMaxEdges = 400'000;
  static Error too_many_states();

  struct Edge {
    CharacterRange range;
    int32_t target;
  };
  struct State {
    // Disjoint ranges in ascending order. A character outside all of them is refused.
    std::vector<Edge> edges;
    bool accepting = false;
  };

  // Takes an automaton that starts in state 0. Edges to states from which no accepting state can be
  // reached are removed.
  explicit StringLanguage(std::vector<State> states);
  static StringLanguage any();
  // Returns the strings of at least `minimum` characters, and at most `maximum` if it has a value.
  static Result<StringLanguage> of_length(int64_t minimum, std::optional<int64_t> maximum,
                                          Budget& budget);
  // Returns the language of given strings in UTF-8.
  static Result<StringLanguage> of_strings(const std::set<std::string>& strings, Budget& budget);

  Result<StringLanguage> intersect(const StringLanguage& other, Budget& budget) const;
  Result<StringLanguage> unite(const StringLanguage& other, Budget& budget) const;
  Result<StringLanguage> complement(Budget& budget) const;

  bool empty() const { return states_.front().edges.empty() && !states_.front().accepting; }
  bool accepts(std::string_view utf8) const;
  const std::vector<State>& states() const { return states_; }
  int64_t bytes() const;  // the memory in use

 private:
  // Removes edges to states from which no accepting state can be reached.
  void trim();

  std::vector<State> states_;
};

}  // namespace neuronmm::grammar
