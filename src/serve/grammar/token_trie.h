#pragma once
// Tokens by their bytes, so that an automaton reads what many of them begin with once.

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "serve/grammar/automaton.h"
#include "text/token_id.h"

namespace neuronmm::grammar {

class TokenTrie {
 public:
  // No text is empty; several tokens may have the same. `plain`: all are of characters that a JSON
  // string has as they are, so that none needs a look where a string of any characters goes on.
  TokenTrie(std::vector<std::pair<std::string, text::TokenId>> tokens, bool plain);

  // Sets the bits of the tokens that the automaton can read from `state` on.
  void allow(Automaton& automaton, StateId state, std::span<uint64_t> mask) const;

 private:
  struct Node {
    uint8_t byte;
    uint32_t depth;       // bytes of its text
    uint32_t end;         // the next node that does not begin with its text
    uint32_t tokens_end;  // in tokens_; those of the node are behind those of the node before
  };
  std::vector<Node> nodes_;  // a text before those that it begins
  std::vector<text::TokenId> tokens_;
  size_t depth_ = 0;
  bool plain_;
};

}  // namespace neuronmm::grammar
