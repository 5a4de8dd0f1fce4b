#include "serve/grammar/automaton.h"

#include <algorithm>
#include <map>
#include <utility>

namespace neuronmm::grammar {
namespace {

// Stands for a set that is empty or was not found.
constexpr StackSetId kNoSet = -1;
// The work of making a state, in the unit of Automaton::work(). Assumed: a table of 1 KiB is
// filled.
constexpr int64_t kWorkPerState = 8;
constexpr int kFirstOfSeveral = 0x80;  // the first byte value that is only a part of a character

// Returns whether the bytes can spell every plain character. UTF-8 never uses C0, C1 and F5 to FF.
bool spells_all(const ByteSet& bytes) {
  for (int byte = 0; byte <= 0xF4; ++byte) {
    const bool is_used = is_plain_byte(static_cast<uint8_t>(byte)) && byte != 0xC0 && byte != 0xC1;
    if (is_used && !bytes[static_cast<size_t>(byte)]) return false;
  }
  return true;
}

}  // namespace

// Collects all stacks that can be reached without reading a byte. The resulting set keeps the
// stacks whose top position reads a byte, and the empty stack if the text may end.
class Automaton::Closure {
 public:
  explicit Closure(Automaton& automaton) : automaton_(automaton), stacks_(automaton.stacks_) {
    stacks_.limit_work(kMaxStepWork);
  }

  void add(PositionId position, StackSetId below) {
    stacks_.spend(1);
    if (!automaton_.is_passable(position, stacks_.depth(below))) return;
    const auto [found, is_new] = below_.try_emplace(position, below);
    if (!is_new) {
      const StackSetId united = stacks_.unite(found->second, below);
      if (united == found->second) return;
      found->second = united;
    }
    queue_.push_back(position);
  }

  // Returns the set. Returns kNoSet if it is empty, or if it takes too much work.
  StackSetId run() {
    while (!queue_.empty()) {
      if (stacks_.exceeds_work_limit()) return kNoSet;
      const PositionId position = queue_.back();
      queue_.pop_back();
      follow(position, below_[position]);
    }
    std::vector<Frame> frames;
    for (const auto& [position, below] : below_) {
      if (automaton_.tables_->reads_bytes[static_cast<size_t>(position)])
        frames.push_back({position, below});
    }
    if (stacks_.exceeds_work_limit() || (frames.empty() && !complete_)) return kNoSet;
    return stacks_.intern(std::move(frames), complete_);
  }

 private:
  void follow(PositionId position, StackSetId below) {
    if (automaton_.tables_->rule_of_end[static_cast<size_t>(position)] >= 0) {
      complete_ = complete_ || stacks_.has_empty_stack(below);
      const std::vector<Frame> frames = stacks_.frames(below);
      for (const Frame& frame : frames) add(frame.top, frame.below);
    }
    automaton_.grammar().for_each_edge(position, [&](const Edge& edge) {
      stacks_.spend(1);
      if (edge.kind == Edge::Kind::kEmpty) add(edge.target, below);
      if (edge.kind != Edge::Kind::kCall) return;
      if (!automaton_.is_passable(edge.target, stacks_.depth(below))) return;
      // A rule that calls last does not return to the caller, so that lists which call themselves
      // at their end have any length.
      const bool is_last = automaton_.tables_->only_ends[static_cast<size_t>(edge.target)];
      const StackSetId inside = is_last ? below : stacks_.intern({{edge.target, below}}, false);
      add(automaton_.grammar().rule(edge.callee).start, inside);
    });
  }

  Automaton& automaton_;
  StackSets& stacks_;
  std::map<PositionId, StackSetId> below_;
  std::vector<PositionId> queue_;
  bool complete_ = false;
};

Automaton::Tables::Tables(const Grammar& grammar_in, const ByteSet& bytes_in)
    : grammar(grammar_in),
      bytes(bytes_in),
      call_depths(minimum_call_depths(grammar, bytes)),
      rule_of_end(call_depths.size(), -1),
      only_ends(call_depths.size(), false),
      reads_bytes(call_depths.size(), false),
      reads_plain(call_depths.size(), false),
      spells_all_characters(spells_all(bytes)) {
  for (RuleId rule = 0; rule < grammar.rules(); ++rule)
    rule_of_end[static_cast<size_t>(grammar.rule(rule).end)] = rule;
  find_only_ends();
  for (PositionId position = 0; position < grammar.positions(); ++position) {
    grammar.for_each_edge(position, [&](const Edge& edge) {
      if (edge.kind != Edge::Kind::kBytes) return;
      const auto at = static_cast<size_t>(position);
      const bool leads_on =
          reads_any(edge) && call_depths[static_cast<size_t>(edge.target)] != kUnreachable;
      if (leads_on) reads_bytes[at] = true;
      for (int byte = edge.first; byte <= edge.last && !reads_plain[at]; ++byte)
        reads_plain[at] = is_plain_byte(static_cast<uint8_t>(byte));
    });
  }
}

// Follows each position's only edge, if it has one, up to a position that is known.
void Automaton::Tables::find_only_ends() {
  std::vector<bool> is_known(call_depths.size(), false);
  for (PositionId first = 0; first < grammar.positions(); ++first) {
    std::vector<size_t> path;
    PositionId position = first;
    bool ends = false;
    while (position >= 0 && !is_known[static_cast<size_t>(position)]) {
      const auto at = static_cast<size_t>(position);
      is_known[at] = true;
      path.push_back(at);
      int edges = 0;
      PositionId next = -1;
      grammar.for_each_edge(position, [&](const Edge& edge) {
        next = ++edges == 1 && edge.kind == Edge::Kind::kEmpty ? edge.target : -1;
      });
      ends = edges == 0 && rule_of_end[at] >= 0;
      if (rule_of_end[at] >= 0) next = -1;
      position = next;
    }
    if (position >= 0) ends = only_ends[static_cast<size_t>(position)];
    for (const size_t at : path) only_ends[at] = ends;
  }
}

bool Automaton::Tables::reads_any(const Edge& edge) const {
  for (int byte = edge.first; byte <= edge.last; ++byte) {
    if (bytes[static_cast<size_t>(byte)]) return true;
  }
  return false;
}

Automaton::Automaton(const Grammar& grammar, const ByteSet& bytes)
    : Automaton(std::make_shared<const Tables>(grammar, bytes)) {}

Automaton::Automaton(std::shared_ptr<const Tables> tables) : tables_(std::move(tables)) {
  Closure closure(*this);
  closure.add(grammar().rule(grammar().root()).start, StackSets::kOnlyEmptyStack);
  start_ = state_of(closure.run());
}

std::unique_ptr<Automaton> Automaton::fresh() const {
  return std::unique_ptr<Automaton>(new Automaton(tables_));
}

// The sets below a set have smaller numbers than the set, so they are adopted first.
StateId Automaton::adopt(const Automaton& other, StateId state) {
  std::vector<StackSetId> sets = {other.set_of(state)};
  std::unordered_map<StackSetId, StackSetId> adopted = {{sets[0], 0}};
  for (size_t i = 0; i < sets.size(); ++i) {
    for (const Frame& frame : other.stacks_.frames(sets[i])) {
      if (adopted.emplace(frame.below, 0).second) sets.push_back(frame.below);
    }
  }
  std::ranges::sort(sets);
  for (const StackSetId set : sets) {
    std::vector<Frame> frames = other.stacks_.frames(set);
    stacks_.spend(std::ssize(frames) + 1);
    for (Frame& frame : frames) frame.below = adopted[frame.below];
    adopted[set] = stacks_.intern(std::move(frames), other.stacks_.has_empty_stack(set));
  }
  return state_of(adopted[other.set_of(state)]);
}

StateId Automaton::state_of(StackSetId set) {
  if (set == kNoSet) return kDead;
  const auto [found, is_new] = state_of_.try_emplace(set, static_cast<StateId>(sets_.size()));
  if (is_new) {
    stacks_.spend(kWorkPerState);
    sets_.push_back(set);
    tables_by_state_.emplace_back().fill(kUnknown);
  }
  return found->second;
}

StateId Automaton::find_step(StateId state, uint8_t byte) {
  StateId target = kDead;
  if (tables_->bytes[byte]) {
    Closure closure(*this);
    const std::vector<Frame> frames = stacks_.frames(set_of(state));
    stacks_.spend(std::ssize(frames));
    for (const Frame& frame : frames) {
      grammar().for_each_edge(frame.top, [&](const Edge& edge) {
        const bool reads =
            edge.kind == Edge::Kind::kBytes && edge.first <= byte && byte <= edge.last;
        if (reads) closure.add(edge.target, frame.below);
      });
    }
    target = state_of(closure.run());
  }
  tables_by_state_[static_cast<size_t>(state)][byte] = target;
  return target;
}

StateId Automaton::step(StateId state, std::string_view text) {
  for (const char c : text) {
    if (state == kDead) return kDead;
    state = step(state, static_cast<uint8_t>(c));
  }
  return state;
}

StateId Automaton::unite(StateId a, StateId b) {
  if (a == kDead || b == kDead || a == b) return a == kDead ? b : a;
  stacks_.limit_work(kMaxStepWork);
  const StackSetId both = stacks_.unite(set_of(a), set_of(b));
  return stacks_.exceeds_work_limit() ? a : state_of(both);
}

bool Automaton::reads_plain_text(StateId state) const {
  return std::ranges::any_of(stacks_.frames(set_of(state)), [&](const Frame& frame) {
    return tables_->reads_plain[static_cast<size_t>(frame.top)];
  });
}

StateId Automaton::state_after_any_plain_character(StateId state) {
  if (grammar().character() < 0 || !tables_->spells_all_characters) return kDead;
  const auto at = static_cast<size_t>(state);
  if (at >= after_any_plain_character_.size())
    after_any_plain_character_.resize(sets_.size(), kUnknown);
  if (after_any_plain_character_[at] == kUnknown) {
    const StateId after = find_state_after_any_plain_character(state);
    after_any_plain_character_[at] = after;
    if (after == kDead) return kDead;
    for (int byte = 0; byte < kFirstOfSeveral; ++byte) {
      if (is_plain_byte(static_cast<uint8_t>(byte)))
        tables_by_state_[at][static_cast<size_t>(byte)] = after;
    }
  }
  return after_any_plain_character_[at];
}

// Finds a state only if all plain characters are read by the rule for any character and no other
// position of the set reads one.
StateId Automaton::find_state_after_any_plain_character(StateId state) {
  const Rule& character = grammar().rule(grammar().character());
  const std::vector<Frame> frames = stacks_.frames(set_of(state));
  stacks_.spend(std::ssize(frames));
  const auto reader = std::ranges::find(frames, character.start, &Frame::top);
  if (reader == frames.end()) return kDead;
  for (const Frame& frame : frames) {
    const bool reads_plain = tables_->reads_plain[static_cast<size_t>(frame.top)];
    if (frame.top != character.start && reads_plain) return kDead;
  }
  Closure closure(*this);
  closure.add(character.end, reader->below);
  return state_of(closure.run());
}

bool Automaton::is_marked_unique(StateId state) {
  marked_unique_.resize(sets_.size());
  std::optional<bool>& known = marked_unique_[static_cast<size_t>(state)];
  if (!known) {
    known = std::ranges::any_of(stacks_.frames(set_of(state)), [&](const Frame& frame) {
      return grammar().is_marked_unique(frame.top);
    });
  }
  return *known;
}

int64_t Automaton::bytes() const {
  constexpr int64_t kBytesPerState = sizeof(tables_by_state_[0]) + 64;
  return stacks_.bytes() + states() * kBytesPerState;
}

}  // namespace neuronmm::grammar
