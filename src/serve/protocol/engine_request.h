#pragma once
// Converts the parameters of a client's request into a request to the engine.
// prepared_generation.cc uses this function.

#include <functional>
#include <vector>

#include "serve/engine/request.h"
#include "serve/protocol/served_model.h"
#include "serve/requests/generation_parameters.h"

namespace neuronmm::serve {

using RandomSource = std::function<uint64_t()>;  // the source of random seeds and ids

// Returns the engine's request for one prompt. Parameters that the client does not set come from
// the model's generation_config.json, and a missing seed from `random`. If the client sets
// `max_tokens` to -1 (kNoTokenLimit), the model's max_new_tokens has no effect. With `chat`, an
// answer also ends at the end of a turn. Returns an error if a token id is outside the vocabulary,
// or if the minimum number of tokens exceeds the maximum.
ApiResult<Request> engine_request(const ServedModel& model, const GenerationParameters& fields,
                                  std::vector<TokenId> prompt, bool chat,
                                  const RandomSource& random);

}  // namespace neuronmm::serve
