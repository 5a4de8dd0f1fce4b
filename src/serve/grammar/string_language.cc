#include "serve/grammar/string_language.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "text/unicode/utf8.h"

namespace neuronmm::grammar {
namespace {

constexpr int32_t kDead = -1;

// The memory of a state and of an edge of an automaton that is being built, with their shares of
// growing vectors and of the tables of removed edges. Assumed.
constexpr int64_t kStateBytes = 160, kEdgeBytes = 2 * sizeof(StringLanguage::Edge) + 8;
// The steps that finding the target of a range of characters takes. Assumed.
constexpr int64_t kStepsPerRange = 8;

int32_t step(const StringLanguage::State& state, char32_t character) {
  const auto edge =
      std::upper_bound(state.edges.begin(), state.edges.end(), character,
                       [](char32_t c, const StringLanguage::Edge& e) { return c < e.range.first; });
  if (edge == state.edges.begin()) return kDead;
  const StringLanguage::Edge& found = *(edge - 1);
  return character <= found.range.last ? found.target : kDead;
}

// Returns the first character of each range of both states, and the character after the last one.
// Between two of these borders, all characters lead to the same states.
std::vector<char32_t> borders(const StringLanguage::State* a, const StringLanguage::State* b) {
  std::vector<char32_t> found = {0, kLastCharacter + 1};
  for (const StringLanguage::State* state : {a, b}) {
    if (state == nullptr) continue;
    for (const StringLanguage::Edge& edge : state->edges) {
      found.push_back(edge.range.first);
      found.push_back(edge.range.last + 1);
    }
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// Runs two automata on the same string. `accepting` says whether a pair of end states accepts. An
// automaton that refuses the string stays in kDead while the other goes on, as unions and
// complements need it.
class Product {
 public:
  using Pair = std::pair<int32_t, int32_t>;
  using Accepting = std::function<bool(bool, bool)>;

  Product(const StringLanguage& a, const StringLanguage& b, Accepting accepting, Budget& budget)
      : a_(a.states()), b_(b.states()), accepting_(std::move(accepting)), budget_(budget) {}

  Result<StringLanguage> run() {
    (void)state_number({0, 0});
    int64_t edges = 0;
    for (size_t i = 0; i < pairs_.size(); ++i) {
      expand(i);
      edges += std::ssize(states_[i].edges);
      if (!budget_.ok()) return budget_.error();
      if (std::ssize(pairs_) > StringLanguage::kMaxStates || edges > StringLanguage::kMaxEdges)
        return StringLanguage::too_many_states();
    }
    return StringLanguage(std::move(states_));
  }

 private:
  static const StringLanguage::State* state(const std::vector<StringLanguage::State>& states,
                                            int32_t id) {
    return id == kDead ? nullptr : &states[static_cast<size_t>(id)];
  }

  int32_t state_number(Pair pair) {
    const auto [found, is_new] = numbers_.emplace(pair, static_cast<int32_t>(pairs_.size()));
    if (is_new) {
      budget_.allocate(kStateBytes);
      pairs_.push_back(pair);
      const auto *a = state(a_, pair.first), *b = state(b_, pair.second);
      const bool accepting = accepting_(a != nullptr && a->accepting, b != nullptr && b->accepting);
      states_.push_back({{}, accepting});
    }
    return found->second;
  }

  void expand(size_t i) {
    const auto *a = state(a_, pairs_[i].first), *b = state(b_, pairs_[i].second);
    const bool needs_both = !accepting_(true, false) && !accepting_(false, true);
    const std::vector<char32_t> at = borders(a, b);
    budget_.spend(kStepsPerRange * std::ssize(at));
    for (size_t k = 0; k + 1 < at.size(); ++k) {
      const Pair target = {a == nullptr ? kDead : step(*a, at[k]),
                           b == nullptr ? kDead : step(*b, at[k])};
      if (needs_both && (target.first == kDead || target.second == kDead)) continue;
      if (target == Pair{kDead, kDead} && !accepting_(false, false)) continue;
      const int32_t next = state_number(target);
      add_characters(states_[i], {at[k], at[k + 1] - 1}, next);
    }
  }

  void add_characters(StringLanguage::State& from, CharacterRange range, int32_t target) {
    const CharacterSet parts = {range};  // leaves out surrogates
    for (const CharacterRange part : parts.ranges()) {
      budget_.allocate(kEdgeBytes);
      from.edges.push_back({part, target});
    }
  }

  const std::vector<StringLanguage::State>&a_, &b_;
  const Accepting accepting_;
  Budget& budget_;
  std::map<Pair, int32_t> numbers_;
  std::vector<Pair> pairs_;
  std::vector<StringLanguage::State> states_;
};

std::vector<StringLanguage::Edge> edges_of_all(int32_t target) {
  std::vector<StringLanguage::Edge> edges;
  for (const CharacterRange range : CharacterSet::all().ranges()) edges.push_back({range, target});
  return edges;
}

}  // namespace

StringLanguage::StringLanguage(std::vector<State> states) : states_(std::move(states)) {
  NMM_CHECK(!states_.empty());
  trim();
}

Error StringLanguage::too_many_states() {
  return fail("its automaton would have more than {} states", kMaxStates);
}

StringLanguage StringLanguage::any() { return StringLanguage({State{edges_of_all(0), true}}); }

Result<StringLanguage> StringLanguage::of_length(int64_t minimum, std::optional<int64_t> maximum,
                                                 Budget& budget) {
  // If there is a maximum, the last state is the dead state of longer strings.
  const int64_t last = maximum ? *maximum + 1 : minimum;
  if (last > kMaxStates) return too_many_states();
  if (!budget.allocate((last + 1) * (kStateBytes + 2 * kEdgeBytes))) return budget.error();
  std::vector<State> states(static_cast<size_t>(last) + 1);
  for (int64_t i = 0; i <= last; ++i) {
    State& state = states[static_cast<size_t>(i)];
    state.edges = edges_of_all(static_cast<int32_t>(std::min(i + 1, last)));
    state.accepting = i >= minimum && (!maximum || i <= *maximum);
  }
  return StringLanguage(std::move(states));
}

Result<StringLanguage> StringLanguage::of_strings(const std::set<std::string>& strings,
                                                  Budget& budget) {
  std::vector<State> states(1);
  for (const std::string& string : strings) {
    size_t at = 0;
    for (size_t i = 0; i < string.size();) {
      const text::Utf8Step read = text::next_utf8(std::string_view(string).substr(i));
      i += static_cast<size_t>(read.length);
      // The strings are sorted, so the character is that of the last edge or a larger one.
      std::vector<Edge>& edges = states[at].edges;
      if (edges.empty() || edges.back().range.first != read.code_point) {
        edges.push_back({{read.code_point, read.code_point}, static_cast<int32_t>(states.size())});
        at = states.size();
        states.emplace_back();
        budget.allocate(kStateBytes + kEdgeBytes);
      } else {
        at = static_cast<size_t>(edges.back().target);
      }
      if (std::ssize(states) > kMaxEdges) return too_many_states();
    }
    if (!budget.spend(1 + std::ssize(string))) return budget.error();
    states[at].accepting = true;
  }
  return StringLanguage(std::move(states));
}

Result<StringLanguage> StringLanguage::intersect(const StringLanguage& other,
                                                 Budget& budget) const {
  return Product(
             *this, other, [](bool a, bool b) { return a && b; }, budget)
      .run();
}

Result<StringLanguage> StringLanguage::unite(const StringLanguage& other, Budget& budget) const {
  return Product(
             *this, other, [](bool a, bool b) { return a || b; }, budget)
      .run();
}

Result<StringLanguage> StringLanguage::complement(Budget& budget) const {
  return Product(
             any(), *this, [](bool a, bool b) { return a && !b; }, budget)
      .run();
}

bool StringLanguage::accepts(std::string_view utf8) const {
  int32_t at = 0;
  while (!utf8.empty()) {
    const text::Utf8Step read = text::next_utf8(utf8);
    if (read.kind != text::Utf8Step::Kind::kCharacter) return false;
    at = step(states_[static_cast<size_t>(at)], read.code_point);
    if (at == kDead) return false;
    utf8.remove_prefix(static_cast<size_t>(read.length));
  }
  return states_[static_cast<size_t>(at)].accepting;
}

int64_t StringLanguage::bytes() const {
  int64_t sum = std::ssize(states_) * static_cast<int64_t>(sizeof(State));
  for (const State& state : states_)
    sum += static_cast<int64_t>(state.edges.capacity() * sizeof(Edge));
  return sum;
}

// The sources of each state are one list after the other in an array.
void StringLanguage::trim() {
  std::vector<int32_t> ends(states_.size() + 1);  // by state: where the list of its sources ends
  for (const State& state : states_) {
    for (const Edge& edge : state.edges) ++ends[static_cast<size_t>(edge.target) + 1];
  }
  for (size_t i = 1; i < ends.size(); ++i) ends[i] += ends[i - 1];
  std::vector<int32_t> sources(static_cast<size_t>(ends.back()));
  std::vector<int32_t> queue;
  std::vector<bool> lives(states_.size());
  for (size_t i = 0; i < states_.size(); ++i) {
    for (const Edge& edge : states_[i].edges)
      sources[static_cast<size_t>(ends[static_cast<size_t>(edge.target)]++)] =
          static_cast<int32_t>(i);
    if (!states_[i].accepting) continue;
    lives[i] = true;
    queue.push_back(static_cast<int32_t>(i));
  }
  while (!queue.empty()) {
    const auto at = static_cast<size_t>(queue.back());
    queue.pop_back();
    for (auto i = static_cast<size_t>(at == 0 ? 0 : ends[at - 1]);
         i < static_cast<size_t>(ends[at]); ++i) {
      const auto source = static_cast<size_t>(sources[i]);
      if (lives[source]) continue;
      lives[source] = true;
      queue.push_back(static_cast<int32_t>(source));
    }
  }
  for (State& state : states_) {
    std::erase_if(state.edges,
                  [&](const Edge& edge) { return !lives[static_cast<size_t>(edge.target)]; });
  }
}

}  // namespace neuronmm::grammar
