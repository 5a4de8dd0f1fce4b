#include "model/continuation.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace neuronmm::model {
namespace {

Status check_finite(std::span<const float> logits, size_t position) {
  if (ops::all_finite(logits)) return {};
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

Continuation::Continuation(const Continuation& other, std::unique_ptr<TokenConstraint> constraint)
    : options_(other.options_),
      limit_(other.limit_),
      prompt_length_(other.prompt_length_),
      tokens_(other.tokens_),
      constraint_(std::move(constraint)),
      sampler_(other.sampler_) {}

std::unique_ptr<Continuation> Continuation::preview() const {
  std::unique_ptr<TokenConstraint> constraint = constraint_ ? constraint_->clone() : nullptr;
  if (constraint_ && !constraint) return nullptr;
  return std::unique_ptr<Continuation>(new Continuation(*this, std::move(constraint)));
}

bool Continuation::follow(TokenId token, size_t vocabulary) {
  if (stops_at(token)) return false;
  if (constraint_) {
    if (constraint_->must_end()) return false;
    const TokenSet allowed = allowed_tokens(vocabulary);
    const auto bit = static_cast<size_t>(token);
    if ((allowed[bit / 64] >> bit % 64 & 1) == 0) return false;
    constraint_->advance(token);
  }
  tokens_.push_back(token);
  return true;
}

bool Continuation::stops_at(TokenId token) const {
  return std::ranges::count(options_.stop_tokens, token) > 0;
}

// Biases and penalties may change the logits of some tokens. These tokens are named, so that their
// logits are there however small they are. `best` adds the largest of the remaining logits, which
// compete with them.
ops::WantedLogits Continuation::wanted() const {
  const SamplingOptions& sampling = options_.sampling;
  const bool draws = sampling.temperature > 0.0;
  ops::WantedLogits wanted = {.all = constraint_ || (draws && sampling.top_k <= 0),
                              .log_sum = options_.logprobs.has_value()};
  if (wanted.all) return wanted;
  wanted.num_best = std::max(draws ? sampling.top_k : 1, options_.logprobs.value_or(0));
  const auto name = [&](std::span<const TokenId> tokens) {
    wanted.named.insert(wanted.named.end(), tokens.begin(), tokens.end());
  };
  if (sampling.repetition_penalty != 1.0 || sampling.penalises_recent_tokens() ||
      sampling.dry.active())
    name(tokens());
  if (sampling.frequency_penalty != 0.0 || sampling.presence_penalty != 0.0) name(generated());
  for (const LogitBias& bias : sampling.logit_bias) wanted.named.push_back(bias.id);
  if (!may_stop()) name(options_.stop_tokens);
  std::ranges::sort(wanted.named);
  wanted.named.erase(std::unique(wanted.named.begin(), wanted.named.end()), wanted.named.end());
  return wanted;
}

Result<Step> Continuation::extend(std::span<const float> logits,
                                  const std::optional<ops::LogSum>& log_sum) {
  NMM_ASSIGN(Step step, choose(logits));
  if (options_.logprobs && step.token)
    step.logprobs = token_logprobs(logits, *step.token, *options_.logprobs, log_sum);
  return step;
}

Result<Step> Continuation::choose(std::span<const float> logits) {
  NMM_TRY(check_finite(logits, tokens_.size()));
  // A constraint may be complete before the first token.
  if (constraint_ && constraint_->must_end()) return Step{.stop = Stop::kComplete};
  const TokenId token =
      sampler_.sample(logits, prompt(), generated(), allowed_tokens(logits.size()));
  if (stops_at(token)) return Step{.stop = Stop::kStopToken, .stop_token = token};
  tokens_.push_back(token);
  if (constraint_) constraint_->advance(token);
  return Step{.token = token, .stop = stop_after_token()};
}

// Tells a full context from a limit that was asked for, because callers report them differently.
std::optional<Stop> Continuation::stop_after_token() const {
  if (constraint_ && constraint_->must_end()) return Stop::kComplete;
  if (std::ssize(generated()) < limit_) return std::nullopt;
  return limit_ < options_.max_new_tokens ? Stop::kContextFull : Stop::kLimit;
}

bool Continuation::may_stop() const {
  return std::ssize(generated()) >= options_.min_new_tokens || options_.stop_tokens.empty();
}

// Returns an empty set, which stands for all tokens, if nothing is forbidden. Before min_new_tokens
// the stop tokens are removed, unless a constraint allows only stop tokens: then the answer is
// complete and may end early.
TokenSet Continuation::allowed_tokens(size_t vocabulary) {
  if (may_stop() && !constraint_) return {};
  allowed_.assign((vocabulary + 63) / 64, constraint_ ? 0 : ~uint64_t{0});
  if (constraint_) constraint_->allowed_tokens(allowed_);
  if (may_stop()) return allowed_;
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
