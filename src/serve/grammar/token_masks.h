#pragma once
// The masks of a grammar: for each state of its automaton, which tokens may come next. A mask is
// computed when its state is first asked for, and then kept for all answers of the grammar. Matcher
// (matcher.h) is the user. All functions may be called from any thread.

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "serve/grammar/automaton.h"
#include "serve/grammar/grammar.h"
#include "serve/grammar/token_vocabulary.h"
#include "serve/grammar/unique_strings.h"

namespace neuronmm::grammar {

class TokenMasks {
 public:
  static constexpr int64_t kDefaultBytes = int64_t{64} << 20;

  // The state that an answer has reached. When states are forgotten, a new generation begins and
  // their numbers become invalid. The answer is then read again from its start.
  struct AnswerState {
    StateId state = Automaton::kDead;
    uint64_t generation = 0;
  };

  // Returns an error if the vocabulary's tokens spell no text of the grammar. If states and masks
  // take more than `max_bytes`, all are forgotten and computed again when they are needed.
  static Result<std::shared_ptr<TokenMasks>> make(CompiledGrammar grammar,
                                                  std::shared_ptr<const TokenVocabulary> vocabulary,
                                                  int64_t max_bytes = kDefaultBytes);

  const TokenVocabulary& vocabulary() const { return *vocabulary_; }
  const std::vector<std::string>& notes() const { return grammar_.notes; }

  AnswerState start();
  // In the functions below, `text` is the answer up to `place`. They replace a place of an earlier
  // generation by the same place of the present one.

  // Sets the bits of the tokens that may come next and clears all others. Tokens that end an answer
  // are left out. `mask` has at least vocabulary().mask_words() words.
  void allowed(AnswerState& answer, std::string_view text, std::span<uint64_t> mask);
  // Moves `place` past `more`, which must be allowed.
  void advance(AnswerState& answer, std::string_view text, std::string_view more);
  bool has_unique_strings() const { return grammar_.grammar.has_unique_marks(); }
  // Clears the bits of tokens that would repeat a string that must be unique in its array.
  void forbid_repeats(AnswerState& answer, std::string_view text, const UniqueStrings& strings,
                      std::span<uint64_t> mask);
  bool is_complete(AnswerState& answer, std::string_view text);
  bool is_final(AnswerState& answer, std::string_view text);

 private:
  TokenMasks(CompiledGrammar grammar, std::shared_ptr<const TokenVocabulary> vocabulary,
             int64_t max_bytes);
  void update_state(AnswerState& answer, std::string_view text);
  void clear_if_full();

  const CompiledGrammar grammar_;
  const std::shared_ptr<const TokenVocabulary> vocabulary_;
  const int64_t max_bytes_;
  std::mutex mutex_;
  std::unique_ptr<Automaton> automaton_;
  std::unordered_map<StateId, std::vector<uint64_t>> masks_;
  uint64_t generation_ = 1;
};

}  // namespace neuronmm::grammar
