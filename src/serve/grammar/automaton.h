#pragma once
// Runs a grammar byte by byte. Where the grammar may be at is one state; states and the steps
// between them are found once and kept, so that most steps are one look into a table.

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "serve/grammar/grammar.h"
#include "serve/grammar/stack_sets.h"

namespace neuronmm::grammar {

using StateId = int32_t;

class Automaton {
 public:
  static constexpr StateId kDead = -1;
  // Calls within calls. Documents nest about as deep: a value calls the values within it.
  static constexpr int32_t kMaxDepth = 256;

  // Only ways that `bytes` can spell to the end are gone. The grammar must outlive the automaton.
  Automaton(const Grammar& grammar, const ByteSet& bytes);

  // No text is possible (with these bytes).
  bool empty() const { return start_ == kDead; }
  StateId start() const { return start_; }
  // From every state that is not dead the end can be reached.
  StateId step(StateId state, uint8_t byte) {
    const StateId known = tables_[static_cast<size_t>(state)][byte];
    return known != kUnknown ? known : find_step(state, byte);
  }
  StateId step(StateId state, std::string_view text);
  // The text may end here.
  bool is_complete(StateId state) const { return stacks_.has_bottom(set_of(state)); }
  // A string that ends here must differ from those before it in its array (Grammar::mark).
  bool is_marked(StateId state) const;
  // It must end here.
  bool is_final(StateId state) const { return stacks_.frames(set_of(state)).empty(); }
  bool accepts(std::string_view text);
  // The state that every character leads to that a JSON string may have as it is: in the middle of
  // a string of any characters, or of so many. kDead: there is no such state.
  StateId behind_any_character(StateId state);
  // Whether one of these characters can come.
  bool reads_plain_text(StateId state) const;

  int64_t states() const { return std::ssize(sets_); }
  int64_t bytes() const;  // of memory

 private:
  static constexpr StateId kUnknown = -2;

  class Closure;
  StackSetId set_of(StateId state) const { return sets_[static_cast<size_t>(state)]; }
  StateId state_of(StackSetId set);
  StateId find_step(StateId state, uint8_t byte);
  bool reads_any(const Edge& edge) const;
  bool is_plain_at(PositionId position) const;  // it reads such a character
  StateId find_behind_any_character(StateId state);
  // The way goes on from the position, below which the stack has `depth` positions.
  bool is_passable(PositionId position, int32_t depth) const {
    const int32_t height = heights_[static_cast<size_t>(position)];
    return height != kNoWay && depth + height <= kMaxDepth;
  }

  const Grammar& grammar_;
  const ByteSet bytes_;
  const std::vector<int32_t> heights_;
  std::vector<RuleId> rule_of_end_;  // by position; -1: the end of no rule
  std::vector<bool> reads_bytes_;    // by position
  StackSets stacks_;
  std::vector<StackSetId> sets_;                      // by state
  std::vector<std::array<StateId, 256>> tables_;      // by state
  std::unordered_map<StackSetId, StateId> state_of_;  // by set
  std::vector<StateId> behind_any_character_;         // by state
  bool spells_all_characters_ = false;
  StateId start_ = kDead;
};

}  // namespace neuronmm::grammar
