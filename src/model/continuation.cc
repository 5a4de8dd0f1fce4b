#include "model/continuation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

namespace neuronmm::model {
namespace {

// All bits of the exponent are set: infinity or NaN. Without a way out of the loop, which compilers
// then make of vector instructions.
bool all_finite(std::span<const float> values) {
  constexpr uint32_t kExponent = 0x7F800000;
  uint32_t any = 0;
  for (const float value : values) {
    any |= (std::bit_cast<uint32_t>(value) & kExponent) == kExponent ? 1 : 0;
  }
  return any == 0;
}

Status check_finite(std::span<const float> logits, size_t position) {
  if (all_finite(logits)) return {};
  const auto found = std::ranges::find_if(logits, [](float x) { return !std::isfinite(x); });
  return fail(
      "expected finite logits, found {} for token {} at position {}: the weights or "
      "their dtype are broken",
      *found, found - logits.begin(), position);
}

}  // namespace

Continuation::Continuation(std::vector<TokenId> prompt, GenerateOptions options, int64_t room,
                           std::unique_ptr<TokenConstraint> constraint)
    : options_(std::move(options)),
      limit_(std::min(options_.max_new_tokens, room)),
      prompt_length_(prompt.size()),
      tokens_(std::move(prompt)),
      constraint_(std::move(constraint)),
      sampler_(options_.sampling) {}

Result<Step> Continuation::extend(std::span<const float> logits) {
  NMM_TRY(check_finite(logits, tokens_.size()));
  // A constraint may allow nothing at all to begin with.
  if (constraint_ && constraint_->must_end()) return Step{.stop = Stop::kComplete};
  const TokenId token =
      sampler_.sample(logits, prompt(), generated(), allowed_tokens(logits.size()));
  if (std::ranges::count(options_.stop_tokens, token) > 0)
    return Step{.stop = Stop::kStopToken, .stop_token = token};
  tokens_.push_back(token);
  if (constraint_) constraint_->advance(token);
  Step step = {.token = token, .stop = stop_after_token()};
  if (options_.logprobs) step.logprobs = token_logprobs(logits, token, *options_.logprobs);
  return step;
}

// Stopped by the room in the model's context or by what was asked for: the caller reports them
// differently.
std::optional<Stop> Continuation::stop_after_token() const {
  if (constraint_ && constraint_->must_end()) return Stop::kComplete;
  if (std::ssize(generated()) < limit_) return std::nullopt;
  return limit_ < options_.max_new_tokens ? Stop::kContextFull : Stop::kLimit;
}

// All, where nothing forbids any. Where a constraint leaves stop tokens alone they are not too
// early: the answer is complete.
TokenSet Continuation::allowed_tokens(size_t vocabulary) {
  const bool may_stop =
      std::ssize(generated()) >= options_.min_new_tokens || options_.stop_tokens.empty();
  if (may_stop && !constraint_) return {};
  allowed_.assign((vocabulary + 63) / 64, constraint_ ? 0 : ~uint64_t{0});
  if (constraint_) constraint_->allowed_tokens(allowed_);
  if (may_stop) return allowed_;
  const std::vector<uint64_t> with_stop_tokens = allowed_;
  for (const TokenId id : options_.stop_tokens) {
    const auto bit = static_cast<size_t>(id);
    if (bit < vocabulary) allowed_[bit / 64] &= ~(uint64_t{1} << bit % 64);
  }
  const bool any_left = std::ranges::any_of(allowed_, [](uint64_t word) { return word != 0; });
  if (!any_left) allowed_ = with_stop_tokens;
  return allowed_;
}

}  // namespace neuronmm::model
