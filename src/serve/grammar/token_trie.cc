#include "serve/grammar/token_trie.h"

#include <algorithm>
#include <string_view>

#include "serve/grammar/token_mask.h"

namespace neuronmm::grammar {

TokenTrie::TokenTrie(std::vector<std::pair<std::string, text::TokenId>> tokens, bool plain)
    : plain_(plain) {
  std::sort(tokens.begin(), tokens.end());
  std::vector<uint32_t> path;  // the nodes of the previous text
  const auto leave = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back())
      nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
  };
  std::string_view before;
  for (const auto& [text, id] : tokens) {
    const auto mismatch = std::mismatch(before.begin(), before.end(), text.begin(), text.end());
    leave(static_cast<size_t>(mismatch.first - before.begin()));
    for (size_t i = path.size(); i < text.size(); ++i) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({static_cast<uint8_t>(text[i]), static_cast<uint32_t>(i + 1), 0,
                        static_cast<uint32_t>(tokens_.size())});
    }
    tokens_.push_back(id);
    nodes_.back().tokens_end = static_cast<uint32_t>(tokens_.size());
    before = text;
    depth_ = std::max(depth_, text.size());
  }
  leave(0);
}

int64_t TokenTrie::allow(Automaton& automaton, StateId state, std::span<uint64_t> mask, Walk& walk,
                         int64_t max_work) const {
  const int64_t before = automaton.work();
  int64_t visited = 0;
  const auto work = [&] { return automaton.work() - before + visited / kNodesPerWork; };
  walk.states.resize(depth_ + 1);
  walk.states[0] = state;
  while (!is_done(walk) && work() < max_work) {
    ++visited;
    const Node& node = nodes_[walk.next];
    const StateId next = automaton.step(walk.states[node.depth - 1], node.byte);
    if (next == Automaton::kDead) {
      walk.next = node.end;
      continue;
    }
    walk.states[node.depth] = next;
    const bool allows_all = plain_ && automaton.state_after_any_plain_character(next) == next;
    const uint32_t end = allows_all ? node.end : walk.next + 1;
    const uint32_t first = walk.next == 0 ? 0 : nodes_[walk.next - 1].tokens_end;
    for (uint32_t k = first; k < nodes_[end - 1].tokens_end; ++k) allow_token(mask, tokens_[k]);
    walk.next = end;
  }
  if (is_done(walk)) walk.states.clear();
  return work();
}

}  // namespace neuronmm::grammar
