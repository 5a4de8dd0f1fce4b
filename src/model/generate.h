#pragma once
// Autoregressive generation for the command line, evaluation and calibration: runs the prompt
// through the model (prefill), then decodes token by token until a stop token, the limit, a full
// context or an interrupt. The server does not use it: it schedules sequences itself.

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "io/generation_config.h"
#include "model/continuation.h"
#include "model/prompt_cache.h"
#include "model/speculation.h"
#include "model/transformer.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::model {

// The answer to one prompt, and the times that it took on the backend's clock.
struct Generation {
  using Stop = model::Stop;
  std::vector<TokenId> tokens;
  std::vector<TokenLogprobs> logprobs;  // one per token if the options ask for them
  Stop stop = Stop::kLimit;
  int64_t reused_tokens = 0;  // the number of the prompt's tokens that the PromptCache already held
  // Since the call of generate(): all prefills and the first sample.
  double time_to_first_token_s = 0.0;
  // One per token after the first. Tokens that a draft proposed share the time of their decode call
  // equally.
  std::vector<double> decode_latencies_s;
  DraftCounts draft = {};
};

// Generates the answer to one prompt. `on_token` is called for every token as soon as it is made;
// if it returns false, generation ends after that token (Stop::kCaller). With a `cache`, the part
// of the prompt that the cache already holds is not computed again; the result is the same. With
// `speculation`, several tokens may come of one decode call; the result is the same, too. If the
// draft fails, speculation->failure() says why.
//
// Errors, for generate_batch too:
// - an empty prompt;
// - a prompt that leaves no space for an answer in max_position_embeddings (the message has both
//   lengths);
// - ids outside the vocabulary, in the prompt or in logit_bias;
// - logits that are NaN or infinite.
Result<Generation> generate(const Transformer& transformer, std::span<const TokenId> prompt,
                            const GenerateOptions& options,
                            const std::function<bool(TokenId)>& on_token = {},
                            PromptCache* cache = nullptr, Speculation* speculation = nullptr);

// Generates the answers to several prompts together: each decode call reads the weights once for
// all sequences that are not done. Sequence i samples with seed + i; apart from that, its answer is
// the one that generate() gives. `on_token` gets the number of the sequence and the token; false
// ends that sequence alone.
Result<std::vector<Generation>> generate_batch(
    const Transformer& transformer, std::span<const std::vector<TokenId>> prompts,
    const GenerateOptions& options, const std::function<bool(int64_t, TokenId)>& on_token = {},
    Speculation* speculation = nullptr);

// Takes over what generation_config.json says about the options, as transformers reads it. Without
// do_sample, generation is greedy whatever the temperature; with do_sample, the temperature is 1
// unless the file gives another. Options that the file does not mention keep their values. Stop
// tokens come from stop_tokens_of() instead.
void apply_generation_config(const io::GenerationConfig& generation_config,
                             GenerateOptions& options);

// Returns eos_token_id of generation_config.json, or that of config.json if the former has none.
// The former is newer and lists all tokens that end a turn; the latter often has the end-of-text
// token only. Ids outside the vocabulary are left out.
std::vector<TokenId> stop_tokens_of(const io::GenerationConfig& generation_config,
                                    const io::ModelConfig& config);
// Returns the same. If neither file names an end, returns those that the vocabulary shows: the
// tokenizer's eos_token and the special tokens of model/end_tokens.h.
std::vector<TokenId> stop_tokens_of(const io::GenerationConfig& generation_config,
                                    const io::ModelConfig& config,
                                    const text::Tokenizer& tokenizer);

}  // namespace neuronmm::model
