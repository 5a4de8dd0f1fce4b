#pragma once
// What a tokenizer's tokens spell, in the form that masks are made from. Made once per model.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/grammar/token_trie.h"
#include "text/tokenizer.h"

namespace neuronmm::grammar {

class TokenVocabulary {
 public:
  // Special tokens spell nothing, but for those in `written`: "[TOOL_CALLS]" where a chat format
  // writes its text. `stop_tokens` end an answer. `size` is the number of logits, which may exceed
  // the tokenizer's vocabulary; tokens beyond it are left out.
  TokenVocabulary(const text::Tokenizer& tokenizer, const std::vector<text::TokenId>& stop_tokens,
                  int64_t size, std::span<const text::TokenId> written = {});
  // Of texts by id; an empty one spells nothing.
  TokenVocabulary(std::vector<std::string> texts, std::vector<text::TokenId> stop_tokens);

  int64_t size() const { return std::ssize(texts_); }
  size_t mask_words() const { return (texts_.size() + 63) / 64; }
  std::string_view text(text::TokenId id) const { return texts_[static_cast<size_t>(id)]; }
  const std::vector<text::TokenId>& stop_tokens() const { return stop_tokens_; }
  bool is_stop(text::TokenId id) const;
  // The tokens that have a quotation mark: strings end with one.
  const std::vector<text::TokenId>& quoting() const { return quoting_; }
  // The bytes that are tokens by themselves. A text of these bytes can be spelled from any place
  // on, so that automata that read no others have no dead ends.
  const ByteSet& bytes() const { return bytes_; }

  // Sets the bits of the tokens that can come at `state`, and clears all others.
  void allow(Automaton& automaton, StateId state, std::span<uint64_t> mask) const;

 private:
  std::vector<std::string> texts_;
  std::vector<text::TokenId> stop_tokens_, quoting_;
  ByteSet bytes_;
  // Sets the bits of the plain tokens that can come, where strings are of any characters; false
  // elsewhere.
  bool allow_plain(Automaton& automaton, StateId state, std::span<uint64_t> mask) const;

  // Tokens of characters that a JSON string has as they are, which are most, and all others: in the
  // middle of a string the former need no look, only a count of their characters.
  TokenTrie plain_, others_;
  std::vector<uint64_t> plain_mask_;
  std::vector<std::pair<size_t, text::TokenId>> plain_lengths_;  // in characters, ascending
};

}  // namespace neuronmm::grammar
