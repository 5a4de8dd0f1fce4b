#pragma once
// Which tokens may come at each state of a grammar: found when a state is first asked for, kept,
// and shared by all answers of that grammar. All functions may be called from any thread.

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
#include "serve/grammar/schema_compiler.h"
#include "serve/grammar/token_vocabulary.h"
#include "serve/grammar/unique_strings.h"

namespace neuronmm::grammar {

class TokenMasks {
 public:
  static constexpr int64_t kDefaultBytes = int64_t{64} << 20;

  // Where an answer is. States have another number after they were forgotten: then the answer is
  // read again from its start.
  struct Place {
    StateId state = Automaton::kDead;
    uint64_t generation = 0;
  };

  // An error if the vocabulary's tokens spell no text of the grammar. What states and masks take
  // beyond `max_bytes` is forgotten, and found again when it is asked for.
  static Result<std::shared_ptr<TokenMasks>> make(CompiledGrammar grammar,
                                                  std::shared_ptr<const TokenVocabulary> vocabulary,
                                                  int64_t max_bytes = kDefaultBytes);

  const TokenVocabulary& vocabulary() const { return *vocabulary_; }
  const std::vector<std::string>& notes() const { return grammar_.notes; }

  Place start();
  // In each function `text` is the answer up to `place`, which becomes the present one.
  // Without the tokens that end an answer. `mask` has vocabulary().mask_words() words, or more.
  void allowed(Place& place, std::string_view text, std::span<uint64_t> mask);
  void advance(Place& place, std::string_view text, std::string_view more);
  // Clears the bits of tokens that would repeat a string where it must not be.
  bool has_unique_strings() const { return grammar_.grammar.has_marks(); }
  void forbid_repeats(Place& place, std::string_view text, const UniqueStrings& strings,
                      std::span<uint64_t> mask);
  bool is_complete(Place& place, std::string_view text);
  bool is_final(Place& place, std::string_view text);

 private:
  TokenMasks(CompiledGrammar grammar, std::shared_ptr<const TokenVocabulary> vocabulary,
             int64_t max_bytes);
  void renew(Place& place, std::string_view text);
  void forget_if_full();

  const CompiledGrammar grammar_;
  const std::shared_ptr<const TokenVocabulary> vocabulary_;
  const int64_t max_bytes_;
  std::mutex mutex_;
  std::unique_ptr<Automaton> automaton_;
  std::unordered_map<StateId, std::vector<uint64_t>> masks_;
  uint64_t generation_ = 1;
};

}  // namespace neuronmm::grammar
