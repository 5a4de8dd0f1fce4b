#pragma once
// The masks of a grammar: for each state of its automaton, which tokens may come next. A mask is
// computed when its state is first asked for, and then kept for all answers of the grammar. Matcher
// (matcher.h) is the user. All functions may be called from any thread.
//
// The engine waits while a mask is computed, so the work for one mask is limited. A mask that takes
// more lacks some tokens at first, and is completed when its state is asked for again.

#include <atomic>
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

  // The state that an answer has reached, in the automaton that has it. If states are forgotten, a
  // new automaton takes the place of the old one, and the next call of allowed() carries the
  // answer's state over. Until then the old automaton reads the tokens that it has allowed. The new
  // one might refuse them, since the work of a step depends on the steps before it.
  struct AnswerState {
    StateId state = Automaton::kDead;
    std::shared_ptr<Automaton> automaton = nullptr;
  };

  // Returns an error if the vocabulary's tokens spell no text of the grammar, or if the budget does
  // not suffice for the first mask. If states and masks take more than `max_bytes`, all are
  // forgotten and computed again when they are needed.
  static Result<std::shared_ptr<TokenMasks>> make(CompiledGrammar grammar,
                                                  std::shared_ptr<const TokenVocabulary> vocabulary,
                                                  int64_t max_bytes = kDefaultBytes,
                                                  Budget* budget = nullptr);

  const TokenVocabulary& vocabulary() const { return *vocabulary_; }
  const std::vector<std::string>& notes() const { return grammar_.notes; }
  // Returns an estimate of the memory in use, in bytes, and the part of it that never changes. They
  // do not wait for a mask that is being computed.
  int64_t bytes() const { return grammar_bytes_ + bytes_of_states_; }
  int64_t grammar_bytes() const { return grammar_bytes_; }

  AnswerState start();
  // Sets the bits of the tokens that may come next and clears all others. Tokens that end an answer
  // are left out. `mask` has at least vocabulary().mask_words() words. Works at most about
  // `max_work`, in the unit of Automaton::work(), and returns how much it was.
  int64_t allowed(AnswerState& answer, std::span<uint64_t> mask, int64_t max_work);
  // Moves the answer past a token, which must be allowed.
  void advance(AnswerState& answer, text::TokenId token);
  // Moves the answer past any text. Returns false if it is not allowed; `answer` is then of no use.
  bool try_advance(AnswerState& answer, std::string_view more);
  // Returns whether the grammar names the token (token_symbols.h).
  bool names(text::TokenId token) const;
  bool has_unique_strings() const { return grammar_.grammar.has_unique_marks(); }
  // Clears the bits of tokens that would repeat a string that must be unique in its array.
  void forbid_repeats(const AnswerState& answer, const UniqueStrings& strings,
                      std::span<uint64_t> mask);
  // Returns whether the answer may end here, or must end here.
  bool is_complete(const AnswerState& answer);
  bool is_final(const AnswerState& answer);

 private:
  struct Mask {
    std::vector<uint64_t> words;
    TokenVocabulary::Progress progress;
    size_t symbols = 0;  // those that were tried
  };

  TokenMasks(CompiledGrammar grammar, std::shared_ptr<const TokenVocabulary> vocabulary,
             int64_t max_bytes);
  // Computes the first mask, before an engine has to wait for it.
  Status prepare(Budget& budget);
  // Makes the answer's automaton the present one.
  void update_state(AnswerState& answer);
  void update_bytes();
  void clear_if_full();
  // Allows the tokens that the grammar asks for as tokens. Returns the work.
  int64_t allow_symbols(StateId state, Mask& mask, int64_t max_work);
  // Sets the bits of all tokens of a symbol.
  void allow_tokens_of(size_t symbol, std::span<uint64_t> mask) const;
  StateId step_over(const AnswerState& answer, text::TokenId token) const;

  const CompiledGrammar grammar_;
  const std::shared_ptr<const TokenVocabulary> vocabulary_;
  const int64_t max_bytes_, grammar_bytes_;
  std::atomic<int64_t> bytes_of_states_ = 0;
  std::mutex mutex_;
  std::shared_ptr<Automaton> automaton_;
  std::unordered_map<StateId, Mask> masks_;
};

}  // namespace neuronmm::grammar
