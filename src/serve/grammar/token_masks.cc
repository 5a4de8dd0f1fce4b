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

TokenMasks::Place TokenMasks::start() {
  const std::scoped_lock lock(mutex_);
  return {automaton_->start(), generation_};
}

void TokenMasks::renew(Place& place, std::string_view text) {
  if (place.generation == generation_) return;
  place = {automaton_->step(automaton_->start(), text), generation_};
}

void TokenMasks::forget_if_full() {
  const int64_t mask_bytes =
      std::ssize(masks_) * static_cast<int64_t>(vocabulary_->mask_words() * sizeof(uint64_t));
  if (automaton_->bytes() + mask_bytes <= max_bytes_) return;
  automaton_ = std::make_unique<Automaton>(grammar_.grammar, vocabulary_->bytes());
  masks_.clear();
  ++generation_;
}

void TokenMasks::allowed(Place& place, std::string_view text, std::span<uint64_t> mask) {
  const std::scoped_lock lock(mutex_);
  forget_if_full();
  renew(place, text);
  const auto [found, is_new] = masks_.try_emplace(place.state);
  if (is_new) {
    found->second.resize(vocabulary_->mask_words());
    vocabulary_->allow(*automaton_, place.state, found->second);
  }
  const auto end = std::copy(found->second.begin(), found->second.end(), mask.begin());
  std::fill(end, mask.end(), 0);
}

void TokenMasks::forbid_repeats(Place& place, std::string_view text, const UniqueStrings& strings,
                                std::span<uint64_t> mask) {
  const std::scoped_lock lock(mutex_);
  renew(place, text);
  for (const text::TokenId token : vocabulary_->quoting()) {
    uint64_t& word = mask[static_cast<size_t>(token) / 64];
    const uint64_t bit = uint64_t{1} << (static_cast<size_t>(token) % 64);
    if ((word & bit) == 0) continue;
    const std::string_view more = vocabulary_->text(token);
    const auto marked = [&](size_t bytes) {
      return automaton_->is_marked(automaton_->step(place.state, more.substr(0, bytes)));
    };
    if (strings.repeats(more, marked)) word &= ~bit;
  }
}

void TokenMasks::advance(Place& place, std::string_view text, std::string_view more) {
  const std::scoped_lock lock(mutex_);
  renew(place, text);
  place.state = automaton_->step(place.state, more);
  NMM_CHECK(place.state != Automaton::kDead);
}

bool TokenMasks::is_complete(Place& place, std::string_view text) {
  const std::scoped_lock lock(mutex_);
  renew(place, text);
  return automaton_->is_complete(place.state);
}

bool TokenMasks::is_final(Place& place, std::string_view text) {
  const std::scoped_lock lock(mutex_);
  renew(place, text);
  return automaton_->is_final(place.state);
}

}  // namespace neuronmm::grammar
