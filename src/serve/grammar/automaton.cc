#include "serve/grammar/automaton.h"

#include <algorithm>
#include <map>
#include <utility>

namespace neuronmm::grammar {
namespace {

constexpr int kFirstOfSeveral = 0x80;  // the first byte value that is only a part of a character

// Returns whether plain characters may contain the byte.
bool is_plain(int byte) { return byte >= 0x20 && byte != '"' && byte != '\\'; }

// Returns whether the bytes can spell every plain character. UTF-8 never uses C0, C1 and F5 to FF.
bool spells_all(const ByteSet& bytes) {
  for (int byte = 0; byte <= 0xF4; ++byte) {
    const bool is_used = is_plain(byte) && byte != 0xC0 && byte != 0xC1;
    if (is_used && !bytes[static_cast<size_t>(byte)]) return false;
  }
  return true;
}

}  // namespace

// Collects all stacks that can be reached without reading a byte. The resulting set keeps the
// stacks whose top position reads a byte, and the empty stack if the text may end.
class Automaton::Closure {
 public:
  explicit Closure(Automaton& automaton) : automaton_(automaton), stacks_(automaton.stacks_) {}

  void add(PositionId position, StackSetId below) {
    if (!automaton_.is_passable(position, stacks_.depth(below))) return;
    const auto [found, is_new] = below_.try_emplace(position, below);
    if (!is_new) {
      const StackSetId united = stacks_.unite(found->second, below);
      if (united == found->second) return;
      found->second = united;
    }
    queue_.push_back(position);
  }

  StackSetId run() {
    while (!queue_.empty()) {
      const PositionId position = queue_.back();
      queue_.pop_back();
      follow(position, below_[position]);
    }
    std::vector<Frame> frames;
    for (const auto& [position, below] : below_) {
      if (automaton_.reads_bytes_[static_cast<size_t>(position)])
        frames.push_back({position, below});
    }
    return stacks_.intern(std::move(frames), complete_);
  }

 private:
  void follow(PositionId position, StackSetId below) {
    if (automaton_.rule_of_end_[static_cast<size_t>(position)] >= 0) {
      complete_ = complete_ || stacks_.has_empty_stack(below);
      const std::vector<Frame> frames = stacks_.frames(below);
      for (const Frame& frame : frames) add(frame.top, frame.below);
    }
    automaton_.grammar_.for_each_edge(position, [&](const Edge& edge) {
      if (edge.kind == Edge::Kind::kEmpty) add(edge.target, below);
      if (edge.kind != Edge::Kind::kCall) return;
      if (!automaton_.is_passable(edge.target, stacks_.depth(below))) return;
      const StackSetId inside = stacks_.intern({{edge.target, below}}, false);
      add(automaton_.grammar_.rule(edge.callee).start, inside);
    });
  }

  Automaton& automaton_;
  StackSets& stacks_;
  std::map<PositionId, StackSetId> below_;
  std::vector<PositionId> queue_;
  bool complete_ = false;
};

Automaton::Automaton(const Grammar& grammar, const ByteSet& bytes)
    : grammar_(grammar),
      bytes_(bytes),
      call_depths_(minimum_call_depths(grammar, bytes)),
      rule_of_end_(call_depths_.size(), -1),
      reads_bytes_(call_depths_.size(), false),
      spells_all_characters_(spells_all(bytes)) {
  for (RuleId rule = 0; rule < grammar.rules(); ++rule)
    rule_of_end_[static_cast<size_t>(grammar.rule(rule).end)] = rule;
  for (PositionId position = 0; position < grammar.positions(); ++position) {
    grammar.for_each_edge(position, [&](const Edge& edge) {
      const bool leads_on = edge.kind == Edge::Kind::kBytes && reads_any(edge) &&
                            call_depths_[static_cast<size_t>(edge.target)] != kUnreachable;
      if (leads_on) reads_bytes_[static_cast<size_t>(position)] = true;
    });
  }
  Closure closure(*this);
  closure.add(grammar.rule(grammar.root()).start, StackSets::kOnlyEmptyStack);
  const StackSetId set = closure.run();
  if (stacks_.has_empty_stack(set) || !stacks_.frames(set).empty()) start_ = state_of(set);
}

StateId Automaton::state_of(StackSetId set) {
  const auto [found, is_new] = state_of_.try_emplace(set, static_cast<StateId>(sets_.size()));
  if (is_new) {
    sets_.push_back(set);
    tables_.emplace_back().fill(kUnknown);
  }
  return found->second;
}

StateId Automaton::find_step(StateId state, uint8_t byte) {
  StateId target = kDead;
  if (bytes_[byte]) {
    Closure closure(*this);
    const std::vector<Frame> frames = stacks_.frames(set_of(state));
    for (const Frame& frame : frames) {
      grammar_.for_each_edge(frame.top, [&](const Edge& edge) {
        const bool reads =
            edge.kind == Edge::Kind::kBytes && edge.first <= byte && byte <= edge.last;
        if (reads) closure.add(edge.target, frame.below);
      });
    }
    const StackSetId set = closure.run();
    if (stacks_.has_empty_stack(set) || !stacks_.frames(set).empty()) target = state_of(set);
  }
  tables_[static_cast<size_t>(state)][byte] = target;
  return target;
}

StateId Automaton::step(StateId state, std::string_view text) {
  for (const char c : text) {
    if (state == kDead) return kDead;
    state = step(state, static_cast<uint8_t>(c));
  }
  return state;
}

bool Automaton::reads_any(const Edge& edge) const {
  for (int byte = edge.first; byte <= edge.last; ++byte) {
    if (bytes_[static_cast<size_t>(byte)]) return true;
  }
  return false;
}

bool Automaton::is_plain_at(PositionId position) const {
  bool reads = false;
  grammar_.for_each_edge(position, [&](const Edge& edge) {
    if (edge.kind != Edge::Kind::kBytes) return;
    for (int byte = edge.first; byte <= edge.last; ++byte) reads |= is_plain(byte);
  });
  return reads;
}

bool Automaton::reads_plain_text(StateId state) const {
  return std::ranges::any_of(stacks_.frames(set_of(state)),
                             [&](const Frame& frame) { return is_plain_at(frame.top); });
}

StateId Automaton::state_after_any_plain_character(StateId state) {
  if (grammar_.character() < 0 || !spells_all_characters_) return kDead;
  const auto at = static_cast<size_t>(state);
  if (at >= after_any_plain_character_.size())
    after_any_plain_character_.resize(sets_.size(), kUnknown);
  if (after_any_plain_character_[at] == kUnknown) {
    const StateId after = find_state_after_any_plain_character(state);
    after_any_plain_character_[at] = after;
    if (after == kDead) return kDead;
    for (int byte = 0; byte < kFirstOfSeveral; ++byte) {
      if (is_plain(byte)) tables_[at][static_cast<size_t>(byte)] = after;
    }
  }
  return after_any_plain_character_[at];
}

// Finds a state only if all plain characters are read by the rule for any character and no other
// position of the set reads one.
StateId Automaton::find_state_after_any_plain_character(StateId state) {
  const Rule& character = grammar_.rule(grammar_.character());
  const std::vector<Frame> frames = stacks_.frames(set_of(state));
  const auto reader = std::ranges::find(frames, character.start, &Frame::top);
  if (reader == frames.end()) return kDead;
  for (const Frame& frame : frames) {
    if (frame.top != character.start && is_plain_at(frame.top)) return kDead;
  }
  Closure closure(*this);
  closure.add(character.end, reader->below);
  return state_of(closure.run());
}

bool Automaton::is_marked_unique(StateId state) const {
  const std::vector<Frame>& frames = stacks_.frames(set_of(state));
  return std::ranges::any_of(
      frames, [&](const Frame& frame) { return grammar_.is_marked_unique(frame.top); });
}

bool Automaton::accepts(std::string_view text) {
  if (empty()) return false;
  const StateId end = step(start_, text);
  return end != kDead && is_complete(end);
}

int64_t Automaton::bytes() const {
  constexpr int64_t kBytesPerState = sizeof(tables_[0]) + 64;
  return stacks_.bytes() + states() * kBytesPerState;
}

}  // namespace neuronmm::grammar
