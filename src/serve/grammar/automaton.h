#pragma once
// Runs a grammar byte by byte. A state stands for all call stacks that the grammar may have after
// the bytes read so far. States and the steps between them are computed once and kept, so most
// steps are one table lookup. TokenMasks (token_masks.h) uses it and bounds its memory, which only
// grows.

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
  // The largest depth of nested calls. JSON documents nest about as deep, since the rule of a value
  // calls the rules of the values within it.
  static constexpr int32_t kMaxDepth = 256;

  // Runs `grammar` on texts of the bytes in `bytes`. Paths that cannot be completed with these
  // bytes are not followed. The grammar must outlive the automaton.
  Automaton(const Grammar& grammar, const ByteSet& bytes);

  // Returns whether the grammar has no text of these bytes.
  bool empty() const { return start_ == kDead; }
  StateId start() const { return start_; }
  // Returns the state after one byte, or after a text. From every state except kDead, a complete
  // text can be reached.
  StateId step(StateId state, uint8_t byte) {
    const StateId known = tables_[static_cast<size_t>(state)][byte];
    return known != kUnknown ? known : find_step(state, byte);
  }
  StateId step(StateId state, std::string_view text);
  // Returns whether the text may end here.
  bool is_complete(StateId state) const { return stacks_.has_empty_stack(set_of(state)); }
  // Returns whether a string that ends here must differ from the strings before it in its array
  // (see Grammar::mark_unique).
  bool is_marked_unique(StateId state) const;
  // Returns whether the text must end here.
  bool is_final(StateId state) const { return stacks_.frames(set_of(state)).empty(); }
  bool accepts(std::string_view text);
  // Returns the one state that every plain character leads to, or kDead if there is no such state.
  // Plain characters are those that a JSON string may contain unescaped. There is such a state
  // inside a string of any characters, even if its length is limited.
  StateId state_after_any_plain_character(StateId state);
  // Returns whether some plain character can come.
  bool reads_plain_text(StateId state) const;

  int64_t states() const { return std::ssize(sets_); }
  int64_t bytes() const;  // an estimate of the memory in use

 private:
  static constexpr StateId kUnknown = -2;

  class Closure;
  StackSetId set_of(StateId state) const { return sets_[static_cast<size_t>(state)]; }
  StateId state_of(StackSetId set);
  StateId find_step(StateId state, uint8_t byte);
  bool reads_any(const Edge& edge) const;
  bool is_plain_at(PositionId position) const;  // whether an edge reads plain characters
  StateId find_state_after_any_plain_character(StateId state);
  // Returns whether the end of the text can be reached from `position` within kMaxDepth calls, if
  // the stack below has `depth` positions.
  bool is_passable(PositionId position, int32_t depth) const {
    const int32_t call_depth = call_depths_[static_cast<size_t>(position)];
    return call_depth != kUnreachable && depth + call_depth <= kMaxDepth;
  }

  const Grammar& grammar_;
  const ByteSet bytes_;
  const std::vector<int32_t> call_depths_;
  std::vector<RuleId> rule_of_end_;  // by position: the rule that ends there, or -1
  std::vector<bool> reads_bytes_;    // by position: whether an edge reads one of the bytes
  StackSets stacks_;
  std::vector<StackSetId> sets_;                      // by state
  std::vector<std::array<StateId, 256>> tables_;      // by state
  std::unordered_map<StackSetId, StateId> state_of_;  // by set
  std::vector<StateId> after_any_plain_character_;    // by state
  bool spells_all_characters_ = false;
  StateId start_ = kDead;
};

}  // namespace neuronmm::grammar
