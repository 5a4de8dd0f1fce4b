#pragma once
// The texts of a tokenizer's tokens, in the form from which masks are computed. The server makes
// one vocabulary per model, and all grammars share it (token_masks.h).

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/grammar/token_trie.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::grammar {

class TokenVocabulary {
 public:
  // Special tokens have no text and are never allowed, except for those in
  // `special_tokens_with_text`, for example "[TOOL_CALLS]" in a chat format that writes this text.
  // `stop_tokens` end an answer. `size` is the number of logits, which may exceed the tokenizer's
  // vocabulary. Ids beyond the tokenizer's vocabulary have no text.
  TokenVocabulary(const text::Tokenizer& tokenizer, const std::vector<text::TokenId>& stop_tokens,
                  int64_t size, std::span<const text::TokenId> special_tokens_with_text = {});
  // Takes the texts by token id. A token with an empty text is never allowed.
  TokenVocabulary(std::vector<std::string> texts, std::vector<text::TokenId> stop_tokens);

  int64_t size() const { return std::ssize(texts_); }
  size_t mask_words() const { return (texts_.size() + 63) / 64; }
  std::string_view text(text::TokenId id) const { return texts_[static_cast<size_t>(id)]; }
  const std::vector<text::TokenId>& stop_tokens() const { return stop_tokens_; }
  bool is_stop(text::TokenId id) const;
  // Returns the tokens that contain a quotation mark and may therefore end a string.
  const std::vector<text::TokenId>& tokens_with_quote() const { return tokens_with_quote_; }
  // Returns the bytes that are tokens by themselves. Every text of these bytes can be spelled from
  // any place. An automaton that reads only these bytes thus never comes to a dead end.
  const ByteSet& bytes() const { return bytes_; }

  // How far the mask of a state is computed.
  struct Progress {
    bool has_plain = false;  // the plain tokens were allowed without reading them
    bool has_bytes = false;  // the tokens of one byte were read first
    TokenTrie::Walk plain, others;
  };

  // Sets the bits of the tokens that can come at `state`, going on after `progress`. At first, the
  // mask must be clear. Stops after about `max_work`. The mask then lacks some tokens, but every
  // text can still be spelled with tokens of one byte. Returns the work in the unit of
  // Automaton::work().
  int64_t allow(Automaton& automaton, StateId state, std::span<uint64_t> mask, Progress& progress,
                int64_t max_work) const;
  // Returns whether the mask is complete.
  bool is_done(const Progress& progress) const {
    return (progress.has_plain || plain_.is_done(progress.plain)) &&
           others_.is_done(progress.others);
  }
  // Returns how much work a mask takes if the automaton knows all its steps.
  int64_t usual_work() const;

 private:
  // Fills the mask with the plain tokens that can come, if `state` is inside a string of any
  // characters. Otherwise, or if that takes more than `max_work`, returns false.
  bool allow_plain(Automaton& automaton, StateId state, std::span<uint64_t> mask,
                   int64_t max_work) const;
  void allow_bytes(Automaton& automaton, StateId state, std::span<uint64_t> mask) const;

  std::vector<std::string> texts_;
  std::vector<text::TokenId> stop_tokens_, tokens_with_quote_, tokens_of_one_byte_;
  ByteSet bytes_;
  // Plain tokens, whose characters a JSON string may contain unescaped, and all other tokens. Most
  // tokens are plain. Inside a string of any characters, only the number of their characters
  // counts.
  TokenTrie plain_, others_;
  std::vector<uint64_t> plain_mask_;
  // The lengths of the plain tokens in characters, in ascending order.
  std::vector<std::pair<size_t, text::TokenId>> plain_lengths_;
};

}  // namespace neuronmm::grammar
