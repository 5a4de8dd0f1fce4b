#include "serve/grammar/matcher.h"

#include <algorithm>

#include "serve/grammar/token_mask.h"

namespace neuronmm::grammar {

void Matcher::allowed_tokens(std::span<uint64_t> allowed) {
  const TokenVocabulary& vocabulary = masks_->vocabulary();
  const int64_t more = kCreditPerToken * vocabulary.usual_work();
  const int64_t most = kMostCredit * vocabulary.usual_work();
  credit_ = std::min(credit_ + more, most);
  credit_ = std::max(credit_ - masks_->allowed(answer_, allowed, credit_), -most);
  if (masks_->has_unique_strings()) masks_->forbid_repeats(answer_, strings_, allowed);
  // Without any token, each way on takes a step of more than Automaton::kMaxStepWork. The answer
  // then has to end.
  ended_ = std::ranges::all_of(allowed, [](uint64_t word) { return word == 0; });
  if (!ended_ && !is_complete()) return;
  for (const text::TokenId stop : vocabulary.stop_tokens()) allow_token(allowed, stop);
}

void Matcher::advance(text::TokenId token) {
  if (masks_->vocabulary().is_stop(token)) ended_ = true;
  if (ended_) return;
  masks_->advance(answer_, token);
  if (masks_->has_unique_strings()) strings_.push(masks_->vocabulary().text(token));
}

bool Matcher::advance_text(std::string_view text) {
  if (!masks_->try_advance(answer_, text)) return false;
  if (masks_->has_unique_strings()) strings_.push(text);
  return true;
}

bool Matcher::must_end() const { return ended_ || masks_->is_final(answer_); }

}  // namespace neuronmm::grammar
