#pragma once
// A regular language of strings: a deterministic automaton over characters. What patterns, formats,
// lengths, property names and numbers with bounds become before they become bytes.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/grammar/character_set.h"

namespace neuronmm::grammar {

class StringLanguage {
 public:
  // What any automaton here may have. Operations that would make more return an error.
  static constexpr int64_t kMaxStates = 50'000, kMaxEdges = 400'000;
  static Error too_many_states();

  struct Edge {
    CharacterRange range;
    int32_t target;
  };
  struct State {
    std::vector<Edge> edges;  // disjoint, ascending; a character of no edge is refused
    bool accepting = false;
  };

  // State 0 is the start.
  explicit StringLanguage(std::vector<State> states);
  static StringLanguage any();
  // Strings of `minimum` to `maximum` characters.
  static Result<StringLanguage> of_length(int64_t minimum, std::optional<int64_t> maximum);
  // Of UTF-8 text.
  static Result<StringLanguage> of_strings(const std::set<std::string>& strings);

  Result<StringLanguage> intersect(const StringLanguage& other) const;
  Result<StringLanguage> unite(const StringLanguage& other) const;
  Result<StringLanguage> complement() const;

  bool empty() const { return states_.front().edges.empty() && !states_.front().accepting; }
  bool accepts(std::string_view utf8) const;
  const std::vector<State>& states() const { return states_; }

 private:
  void trim();  // takes out the states that lead to no accepting one

  std::vector<State> states_;
};

}  // namespace neuronmm::grammar
