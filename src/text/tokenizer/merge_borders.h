#pragma once
// Finds the places in a word that no merge can cross, because no token contains the two symbols
// side by side. Bpe cuts a word at these places without changing its tokens. SentencePiece
// tokenizers treat a text of megabytes as one word, and the cuts make its pieces as short as words.

#include <span>
#include <vector>

#include "text/tokenizer/merge_table.h"
#include "text/tokenizer/token_id.h"

namespace neuronmm::text {

// The pairs of symbols that some merge joins.
class MergeBorders {
 public:
  // A merge: the tokens `left` and `right` become the token `merged`.
  struct Rule {
    TokenId left, right, merged;
  };

  // Without rules no borders are known.
  MergeBorders() = default;
  // `symbols` lists all symbols of which words consist (Alphabet::all).
  MergeBorders(std::span<const Rule> rules, std::span<const TokenId> symbols);

  // Returns true if no merge joins a token that ends in `left` with one that begins with `right`.
  bool is_border(TokenId left, TokenId right) const {
    return known_ && neighbours_.find(left, right) == nullptr;
  }

 private:
  bool known_ = false;
  MergeTable neighbours_;
};

}  // namespace neuronmm::text
