#pragma once
// The texts of tokens as a tree. An automaton reads a prefix that many tokens share only once.
// TokenVocabulary (token_vocabulary.h) uses it to compute masks.

#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "serve/grammar/automaton.h"
#include "text/tokenizer/token_id.h"

namespace neuronmm::grammar {

class TokenTrie {
 public:
  // The nodes whose step is known that are visited in one unit of Automaton::work(). Measured: a
  // node takes about 10 ns.
  static constexpr int64_t kNodesPerWork = 8;

  // No text may be empty. Several tokens may have the same text. `plain` says that all texts
  // consist of characters that a JSON string may contain unescaped. Inside a string of any
  // characters, all these tokens are allowed without reading them.
  TokenTrie(std::vector<std::pair<std::string, text::TokenId>> tokens, bool plain);

  // A walk through the tree, which can be interrupted.
  struct Walk {
    uint32_t next = 0;            // the next node
    std::vector<StateId> states;  // by depth: the states after the texts of the nodes above it
  };

  // Sets the bits of the tokens that the automaton can read from `state`, from walk.next on. Stops
  // after about `max_work`. Returns the work in the unit of Automaton::work().
  int64_t allow(Automaton& automaton, StateId state, std::span<uint64_t> mask, Walk& walk,
                int64_t max_work) const;
  bool is_done(const Walk& walk) const { return walk.next >= nodes_.size(); }
  int64_t nodes() const { return std::ssize(nodes_); }

 private:
  struct Node {
    uint8_t byte;
    uint32_t depth;       // the length of the node's text in bytes
    uint32_t end;         // the index of the next node whose text does not begin with this one
    uint32_t tokens_end;  // the node's tokens in tokens_ begin at the previous node's tokens_end
  };
  std::vector<Node> nodes_;  // in depth-first order
  std::vector<text::TokenId> tokens_;
  size_t depth_ = 0;  // the length of the longest text in bytes
  bool plain_;
};

}  // namespace neuronmm::grammar
