#include "serve/engine/admission.h"

#include <cmath>
#include <string_view>

#include "base/result.h"
#include "model/logits_processors.h"

namespace neuronmm::serve {
namespace {

Status check_range(std::string_view field, double value, double least, double most) {
  if (value >= least && value <= most) return {};  // NaN fails both comparisons
  return fail("{}: expected a number from {} to {}, found {}", field, least, most, value);
}

Status check_count(std::string_view field, std::optional<int64_t> value, int64_t least) {
  if (value.value_or(least) >= least) return {};
  return fail("{}: expected at least {}, found {}", field, least, *value);
}

// Bounds of sampling options. Assumed: no useful value reaches them, and within them the sampler's
// products and exponents stay finite.
constexpr double kLarge = 1e6, kSmall = 1e-6;

Status check_sampling(const model::SamplingOptions& sampling, int64_t vocab_size) {
  NMM_TRY(check_range("temperature", sampling.temperature, 0.0, kLarge));
  NMM_TRY(check_count("top_k", sampling.top_k, 0));
  NMM_TRY(check_range("top_p", sampling.top_p, 0.0, 1.0));
  NMM_TRY(check_range("min_p", sampling.min_p, 0.0, 1.0));
  NMM_TRY(check_range("typical_p", sampling.typical_p, 0.0, 1.0));
  NMM_TRY(check_range("xtc_probability", sampling.xtc_probability, 0.0, 1.0));
  NMM_TRY(check_range("xtc_threshold", sampling.xtc_threshold, 0.0, 1.0));
  NMM_TRY(check_range("repeat_penalty", sampling.repeat_penalty, kSmall, kLarge));
  NMM_TRY(check_count("repeat_last_n", sampling.repeat_last_n, -1));
  NMM_TRY(check_range("dry.multiplier", sampling.dry.multiplier, -kLarge, kLarge));
  NMM_TRY(check_range("dry.base", sampling.dry.base, 1.0, kLarge));
  NMM_TRY(check_count("dry.allowed_length", sampling.dry.allowed_length, 0));
  NMM_TRY(check_count("dry.last_n", sampling.dry.last_n, -1));
  NMM_TRY(check_range("repetition_penalty", sampling.repetition_penalty, kSmall, kLarge));
  NMM_TRY(check_range("frequency_penalty", sampling.frequency_penalty, -kLarge, kLarge));
  NMM_TRY(check_range("presence_penalty", sampling.presence_penalty, -kLarge, kLarge));
  for (const model::LogitBias& bias : sampling.logit_bias) {
    NMM_TRY(check_range("logit_bias", bias.bias, -kLargestBias, kLargestBias));
  }
  return model::check_biases(sampling.logit_bias, vocab_size);
}

Status check_values(const Request& request, const model::Transformer& transformer) {
  if (request.prompt.empty()) return fail("the prompt is empty: expected at least one token");
  NMM_TRY(model::check_token_ids(request.prompt, transformer.config()));
  NMM_TRY(check_range("choices", static_cast<double>(request.choices), 1,
                      static_cast<double>(kMostChoices)));
  if (request.embedding && request.choices != 1)
    return fail("choices: expected 1 for an embedding, found {}", request.choices);
  NMM_TRY(check_count("max_new_tokens", request.max_new_tokens, 0));
  NMM_TRY(check_count("min_new_tokens", request.min_new_tokens, 0));
  NMM_TRY(check_count("logprobs", request.logprobs, 0));
  NMM_TRY(check_count("prompt_logprobs", request.prompt_logprobs, 0));
  return check_sampling(request.sampling, transformer.config().vocab_size);
}

}  // namespace

std::optional<Refused> find_refusal(const Request& request, const model::Transformer& transformer,
                                    const SequenceCapacity& capacity) {
  if (const Status valid = check_values(request, transformer); !valid.ok())
    return Refused{Refusal::kInvalid, valid.error().message};
  const int64_t prompt = std::ssize(request.prompt);
  // The fewest tokens that the answer needs.
  const int64_t answer = request.embedding || request.max_new_tokens == 0 ? 0 : 1;
  if (prompt + answer > capacity.context)
    return Refused{
        Refusal::kContextLength,
        fmt::format("the prompt has {} tokens, and the context holds {}: expected at most {}{}",
                    prompt, capacity.context, capacity.context - answer,
                    answer > 0 ? ", which leaves room for an answer" : "")};
  if (prompt + answer > capacity.kv_cache)
    return Refused{Refusal::kNeverFits,
                   fmt::format("the prompt has {} tokens and can never be held: the memory of keys "
                               "and values has room for {}",
                               prompt, capacity.kv_cache)};
  return std::nullopt;
}

}  // namespace neuronmm::serve
