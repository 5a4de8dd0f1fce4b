#pragma once
// Autoregressive generation: prefill the prompt, then decode token by token until a stop token, the
// limit, or an interrupt.

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "io/generation_config.h"
#include "model/continuation.h"
#include "model/prompt_cache.h"
#include "model/transformer.h"

namespace neuronmm::model {

struct Generation {
  using Stop = model::Stop;
  std::vector<TokenId> tokens;
  std::vector<TokenLogprobs> logprobs;  // one per token where the options ask for them
  Stop stop = Stop::kLimit;
  int64_t reused_tokens = 0;               // of the prompt, those that its cache had already
  double time_to_first_token_s = 0.0;      // since the call: prefills and the first sample
  std::vector<double> decode_latencies_s;  // one per decode call (tokens after the first)
};

// on_token is called for every token as it is made; false ends the generation after that token
// (Stop::kCaller). Errors (of generate_batch too): an empty prompt, a prompt that leaves no room in
// max_position_embeddings (both lengths in the message), ids outside the vocabulary (also those of
// logit_bias), logits that are NaN or infinite. With a `cache` only that part of the prompt is
// computed which the cache's tokens do not begin with; the result is the same.
Result<Generation> generate(const Transformer& transformer, std::span<const TokenId> prompt,
                            const GenerateOptions& options,
                            const std::function<bool(TokenId)>& on_token = {},
                            PromptCache* cache = nullptr);

// Several prompts, decoded together: each decode call reads the weights once for all sequences that
// are not done. Sequence i samples with seed + i and is otherwise what generate() makes of its
// prompt. on_token(i, token); false ends sequence i alone.
Result<std::vector<Generation>> generate_batch(
    const Transformer& transformer, std::span<const std::vector<TokenId>> prompts,
    const GenerateOptions& options, const std::function<bool(int64_t, TokenId)>& on_token = {});

// What generation_config.json says of the options, as transformers reads it: without do_sample it
// is greedy whatever the temperature, with it the temperature is 1 unless it says another. What it
// does not say stays as it is; stop tokens are left to stop_tokens_of.
void apply(const io::GenerationConfig& generation_config, GenerateOptions& options);

// eos_token_id of generation_config.json, else of config.json: the former is newer and lists all
// tokens that end a turn, where the latter has the end of text alone.
std::vector<TokenId> stop_tokens_of(const io::GenerationConfig& generation_config,
                                    const io::ModelConfig& config);

}  // namespace neuronmm::model
