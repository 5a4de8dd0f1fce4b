#include "serve/protocol/engine_request.h"

#include <algorithm>

#include "serve/protocol/prompt.h"

namespace neuronmm::serve {
namespace {

model::SamplingOptions sampling_of(const io::GenerationConfig& generation,
                                   const GenerationParameters& fields) {
  const auto chosen = [](const auto& requested, const auto& model_value, auto fallback) {
    return requested ? *requested : model_value.value_or(fallback);
  };
  const double whole_penalty =
      fields.repeat_penalty ? 1.0 : generation.repetition_penalty.value_or(1.0);
  return {.temperature = chosen(fields.temperature, generation.temperature, 1.0),
          .top_k = chosen(fields.top_k, generation.top_k, int64_t{0}),
          .top_p = chosen(fields.top_p, generation.top_p, 1.0),
          .min_p = chosen(fields.min_p, generation.min_p, 0.0),
          .temperature_last = fields.temperature_last,
          .typical_p = fields.typical_p,
          .xtc_probability = fields.xtc_probability,
          .xtc_threshold = fields.xtc_threshold,
          .repetition_penalty = fields.repetition_penalty.value_or(whole_penalty),
          .repeat_penalty = fields.repeat_penalty.value_or(1.0),
          .repeat_last_n = fields.repeat_last_n,
          .frequency_penalty = fields.frequency_penalty,
          .presence_penalty = fields.presence_penalty,
          .dry = fields.dry,
          .logit_bias = fields.logit_bias};
}

std::vector<TokenId> stop_tokens_of(const ServedModel& model, const GenerationParameters& fields,
                                    bool chat) {
  std::vector<TokenId> stops = fields.stop_token_ids;
  if (!fields.ignore_eos) {
    stops.insert(stops.end(), model.stop_tokens.begin(), model.stop_tokens.end());
    // A base model's config may name only the end of a text, not the end of a chat's turn.
    const auto end = model.tokenizer->eos_id();
    if (chat && end && *end < model.vocab_size) stops.push_back(*end);
  }
  std::sort(stops.begin(), stops.end());
  stops.erase(std::unique(stops.begin(), stops.end()), stops.end());
  return stops;
}

ApiResult<bool> check_ids(const ServedModel& model, const GenerationParameters& fields) {
  for (const model::LogitBias& bias : fields.logit_bias) {
    if (bias.id >= model.vocab_size) return outside_vocabulary(model, bias.id, "logit_bias");
  }
  for (const TokenId id : fields.stop_token_ids) {
    if (id >= model.vocab_size) return outside_vocabulary(model, id, "stop_token_ids");
  }
  return true;
}

// Returns the limit that the engine gets. Without a value, an answer may fill the context.
std::optional<int64_t> token_limit(const io::GenerationConfig& generation,
                                   std::optional<int64_t> asked) {
  if (!asked) return generation.max_new_tokens;
  return *asked == kNoTokenLimit ? std::nullopt : asked;
}

}  // namespace

ApiResult<Request> engine_request(const ServedModel& model, const GenerationParameters& fields,
                                  std::vector<TokenId> prompt, bool chat,
                                  const RandomSource& random) {
  NMM_TRY(check_ids(model, fields));
  Request request;
  request.prompt = std::move(prompt);
  request.choices = fields.n;
  request.sampling = sampling_of(model.generation, fields);
  if (request.sampling.dry.active())
    request.sampling.dry.breakers =
        model.breakers->get(*model.tokenizer, fields.dry_sequence_breakers);
  request.sampling.seed = fields.seed ? *fields.seed : random();
  request.max_new_tokens = token_limit(model.generation, fields.max_tokens);
  request.min_new_tokens = fields.min_tokens;
  if (request.max_new_tokens && request.min_new_tokens > *request.max_new_tokens)
    return invalid_request(
        "min_tokens", fmt::format("min_tokens: expected at most {}, the tokens to make at most, "
                                  "found {}",
                                  *request.max_new_tokens, request.min_new_tokens));
  request.stop_tokens = stop_tokens_of(model, fields, chat);
  request.logprobs = fields.logprobs;
  if (fields.echo && !chat) request.prompt_logprobs = fields.logprobs;
  request.cache_salt = fields.cache_salt;
  request.priority = fields.priority;
  return request;
}

}  // namespace neuronmm::serve
