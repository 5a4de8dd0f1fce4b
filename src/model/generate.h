#pragma once
// Autoregressive generation: prefill the prompt, then decode token by token until a stop token, the
// limit, or an interrupt.

#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/sampler.h"
#include "model/transformer.h"

namespace neuronmm::model {

struct GenerateOptions {
  int64_t max_new_tokens = 128;
  SamplingOptions sampling = {};
  std::vector<TokenId> stop_tokens = {};  // generation ends before such a token is emitted
};

struct Generation {
  enum class Stop { kStopToken, kLimit, kContextFull, kInterrupted };
  std::vector<TokenId> tokens;
  Stop stop = Stop::kLimit;
  double time_to_first_token_s = 0.0;      // since the call: prefills and the first sample
  std::vector<double> decode_latencies_s;  // one per decode call (tokens after the first)
};

// on_token is called for every token as it is made. Errors (of generate_batch too): an empty
// prompt, a prompt that leaves no room in max_position_embeddings (both lengths in the message),
// ids outside the vocabulary, logits that are NaN or infinite.
Result<Generation> generate(const Transformer& transformer, std::span<const TokenId> prompt,
                            const GenerateOptions& options,
                            const std::function<void(TokenId)>& on_token = {});

// Several prompts, decoded together: each decode call reads the weights once for all sequences that
// are not done. Sequence i samples with seed + i and is otherwise what generate() makes of its
// prompt. on_token(i, token).
Result<std::vector<Generation>> generate_batch(
    const Transformer& transformer, std::span<const std::vector<TokenId>> prompts,
    const GenerateOptions& options, const std::function<void(int64_t, TokenId)>& on_token = {});

// eos_token_id of generation_config.json (one or a list), else of config.json.
Result<std::vector<TokenId>> stop_tokens_of(const std::filesystem::path& folder,
                                            const io::ModelConfig& config);

}  // namespace neuronmm::model
