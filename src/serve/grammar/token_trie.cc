#include "serve/grammar/token_trie.h"

#include <algorithm>
#include <string_view>

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

void TokenTrie::allow(Automaton& automaton, StateId state, std::span<uint64_t> mask) const {
  std::vector<StateId> states(depth_ + 1);
  states[0] = state;
  for (uint32_t i = 0; i < nodes_.size();) {
    const Node& node = nodes_[i];
    const StateId next = automaton.step(states[node.depth - 1], node.byte);
    if (next == Automaton::kDead) {
      i = node.end;
      continue;
    }
    states[node.depth] = next;
    const bool allows_all = plain_ && automaton.state_after_any_plain_character(next) == next;
    const uint32_t end = allows_all ? node.end : i + 1;
    for (uint32_t k = i == 0 ? 0 : nodes_[i - 1].tokens_end; k < nodes_[end - 1].tokens_end; ++k) {
      const auto id = static_cast<uint32_t>(tokens_[k]);
      mask[id / 64] |= uint64_t{1} << (id % 64);
    }
    i = end;
  }
}

}  // namespace neuronmm::grammar
