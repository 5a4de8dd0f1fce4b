#pragma once
// Runs a grammar byte by byte. A state stands for all call stacks that the grammar may have after
// the bytes read so far. States and the steps between them are computed once and kept, so most
// steps are one table lookup. TokenMasks (token_masks.h) uses it and bounds its memory, which only
// grows. The work of one step is bounded, too.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "serve/grammar/grammar.h"
#include "serve/grammar/stack_sets.h"

namespace neuronmm::grammar {

using StateId = int32_t;

// Returns whether plain characters may contain the byte. Plain characters are those that a JSON
// string may contain unescaped.
constexpr bool is_plain_byte(uint8_t byte) { return byte >= 0x20 && byte != '"' && byte != '\\'; }

class Automaton {
 public:
  static constexpr StateId kDead = -1;
  // The largest depth of nested calls. JSON documents nest about as deep, since the rule of a value
  // calls the rules of the values within it. Assumed: no answer nests deeper.
  static constexpr int32_t kMaxDepth = 256;

  // The most work of one step (see work()). A byte whose step takes more cannot be read.
  // Assumed: the work takes about 10 ms.
  static constexpr int64_t kMaxStepWork = 200'000;

  // Runs `grammar` on texts of the bytes in `bytes`. Paths that cannot be completed with these
  // bytes are not followed. The grammar must outlive the automaton.
  Automaton(const Grammar& grammar, const ByteSet& bytes);
  // Returns an automaton of the same grammar that has no states yet. Making it takes little time.
  std::unique_ptr<Automaton> fresh() const;
  // Returns the state that stands for the same stacks as `state` of `other`, which runs the same
  // grammar.
  StateId adopt(const Automaton& other, StateId state);

  // Returns whether the grammar has no text of these bytes, or none whose first byte can be found
  // with kMaxStepWork.
  bool empty() const { return start_ == kDead; }
  StateId start() const { return start_; }
  // Returns the state after one byte, or after a text. From every state except kDead, a complete
  // text can be reached, unless each way to it takes a step of more than kMaxStepWork.
  StateId step(StateId state, uint8_t byte) {
    const StateId known = tables_by_state_[static_cast<size_t>(state)][byte];
    return known != kUnknown ? known : find_step(state, byte);
  }
  StateId step(StateId state, std::string_view text);
  // Returns the state that stands for the stacks of both states, each of which may be kDead. If
  // finding it takes more than kMaxStepWork, returns one of the two.
  StateId unite(StateId a, StateId b);
  // Returns whether the text may end here.
  bool is_complete(StateId state) const { return stacks_.has_empty_stack(set_of(state)); }
  // Returns whether a string that ends here must differ from the strings before it in its array
  // (see Grammar::mark_unique).
  bool is_marked_unique(StateId state);
  // Returns whether the text must end here.
  bool is_final(StateId state) const { return stacks_.frames(set_of(state)).empty(); }
  // Returns the one state that every plain character leads to, or kDead if there is no such state.
  // There is such a state inside a string of any characters, even if its length is limited.
  StateId state_after_any_plain_character(StateId state);
  // Returns whether some plain character can come.
  bool reads_plain_text(StateId state) const;

  int64_t states() const { return std::ssize(sets_); }
  int64_t bytes() const;  // an estimate of the memory in use
  // Returns how many stacks and new states were looked at so far. A unit takes about 0.1 us.
  int64_t work() const { return stacks_.work(); }

 private:
  static constexpr StateId kUnknown = -2;

  // Facts about the positions of the grammar, which all automata of it share.
  struct Tables {
    Tables(const Grammar& grammar, const ByteSet& bytes);
    bool reads_any(const Edge& edge) const;
    void find_only_ends();

    const Grammar& grammar;
    const ByteSet bytes;
    const std::vector<int32_t> call_depths;
    std::vector<RuleId> rule_of_end;  // by position: the rule that ends there, or -1
    std::vector<bool> only_ends;    // by position: whether nothing but the end of its rule follows
    std::vector<bool> reads_bytes;  // by position: whether an edge reads one of the bytes
    std::vector<bool> reads_plain;  // by position: whether an edge reads plain characters
    bool spells_all_characters;
  };

  class Closure;
  explicit Automaton(std::shared_ptr<const Tables> tables);
  const Grammar& grammar() const { return tables_->grammar; }
  StackSetId set_of(StateId state) const { return sets_[static_cast<size_t>(state)]; }
  StateId state_of(StackSetId set);
  StateId find_step(StateId state, uint8_t byte);
  StateId find_state_after_any_plain_character(StateId state);
  // Returns whether the end of the text can be reached from `position` within kMaxDepth calls, if
  // the stack below has `depth` positions.
  bool is_passable(PositionId position, int32_t depth) const {
    const int32_t call_depth = tables_->call_depths[static_cast<size_t>(position)];
    return call_depth != kUnreachable && depth + call_depth <= kMaxDepth;
  }

  const std::shared_ptr<const Tables> tables_;
  StackSets stacks_;
  std::vector<StackSetId> sets_;  // by state
  std::vector<std::array<StateId, 256>> tables_by_state_;
  std::unordered_map<StackSetId, StateId> state_of_;  // by set
  std::vector<StateId> after_any_plain_character_;    // by state
  std::vector<std::optional<bool>> marked_unique_;    // by state
  StateId start_ = kDead;
};

}  // namespace neuronmm::grammar
