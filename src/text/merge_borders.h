#pragma once
// Where no merge of a BPE model can reach across: between two symbols that no token has side by
// side. A word may be cut there without changing its tokens, so that a text of megabytes that is
// one word (SentencePiece) is merged in pieces of a word's length.

#include <span>
#include <vector>

#include "text/merge_table.h"
#include "text/token_id.h"

namespace neuronmm::text {

class MergeBorders {
 public:
  struct Rule {
    TokenId left, right, merged;
  };

  MergeBorders() = default;  // no borders: merges may reach everywhere
  // `symbols`: all that words consist of.
  MergeBorders(std::span<const Rule> rules, std::span<const TokenId> symbols);

  bool between(TokenId left, TokenId right) const {
    return known_ && neighbours_.find(left, right) == nullptr;
  }

 private:
  bool known_ = false;
  MergeTable neighbours_;
};

}  // namespace neuronmm::text
