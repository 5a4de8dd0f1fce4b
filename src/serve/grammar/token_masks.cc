#include "serve/grammar/token_masks.h"

#include <algorithm>
#include <utility>

namespace neuronmm::grammar {

Result<std::shared_ptr<TokenMasks>> TokenMasks::make(
    CompiledGrammar grammar, std::shared_ptr<const TokenVocabulary> vocabulary, int64_t max_bytes) {
  std::shared_ptr<TokenMasks> masks(
      new TokenMasks(std::move(grammar), std::move(vocabulary), max_bytes));
  if (masks->automaton_->empty())
    return fail("the grammar asks for bytes that no token of the vocabulary spells");
  return masks;
}

TokenMasks::TokenMasks(CompiledGrammar grammar, std::shared_ptr<const TokenVocabulary> vocabulary,
                       int64_t max_bytes)
    : grammar_(std::move(grammar)),
      vocabulary_(std::move(vocabulary)),
      max_bytes_(max_bytes),
      automaton_(std::make_unique<Automaton>(grammar_.grammar, vocabulary_->bytes())) {}

TokenMasks::AnswerState TokenMasks::start() {
  const std::scoped_lock lock(mutex_);
  return {automaton_->start(), generation_};
}

void TokenMasks::update_state(AnswerState& answer, std::string_view text) {
  if (answer.generation == generation_) return;
  answer = {automaton_->step(automaton_->start(), text), generation_};
}

void TokenMasks::clear_if_full() {
  const int64_t mask_bytes =
      std::ssize(masks_) * static_cast<int64_t>(vocabulary_->mask_words() * sizeof(uint64_t));
  if (automaton_->bytes() + mask_bytes <= max_bytes_) return;
  automaton_ = std::make_unique<Automaton>(grammar_.grammar, vocabulary_->bytes());
  masks_.clear();
  ++generation_;
}

void TokenMasks::allowed(AnswerState& answer, std::string_view text, std::span<uint64_t> mask) {
  const std::scoped_lock lock(mutex_);
  clear_if_full();
  update_state(answer, text);
  const auto [found, is_new] = masks_.try_emplace(answer.state);
  if (is_new) {
    found->second.resize(vocabulary_->mask_words());
    vocabulary_->allow(*automaton_, answer.state, found->second);
  }
  const auto end = std::copy(found->second.begin(), found->second.end(), mask.begin());
  std::fill(end, mask.end(), 0);
}

void TokenMasks::forbid_repeats(AnswerState& answer, std::string_view text,
                                const UniqueStrings& strings, std::span<uint64_t> mask) {
  const std::scoped_lock lock(mutex_);
  update_state(answer, text);
  for (const text::TokenId token : vocabulary_->tokens_with_quote()) {
    uint64_t& word = mask[static_cast<size_t>(token) / 64];
    const uint64_t bit = uint64_t{1} << (static_cast<size_t>(token) % 64);
    if ((word & bit) == 0) continue;
    const std::string_view more = vocabulary_->text(token);
    const auto is_marked_unique = [&](size_t bytes) {
      return automaton_->is_marked_unique(automaton_->step(answer.state, more.substr(0, bytes)));
    };
    if (strings.would_repeat(more, is_marked_unique)) word &= ~bit;
  }
}

void TokenMasks::advance(AnswerState& answer, std::string_view text, std::string_view more) {
  const std::scoped_lock lock(mutex_);
  update_state(answer, text);
  answer.state = automaton_->step(answer.state, more);
  NMM_CHECK(answer.state != Automaton::kDead);
}

bool TokenMasks::is_complete(AnswerState& answer, std::string_view text) {
  const std::scoped_lock lock(mutex_);
  update_state(answer, text);
  return automaton_->is_complete(answer.state);
}

bool TokenMasks::is_final(AnswerState& answer, std::string_view text) {
  const std::scoped_lock lock(mutex_);
  update_state(answer, text);
  return automaton_->is_final(answer.state);
}

}  // namespace neuronmm::grammar
