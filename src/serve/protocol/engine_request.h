#pragma once
// What a request of the protocol asks of the engine.

#include <functional>
#include <vector>

#include "serve/engine/request.h"
#include "serve/protocol/generation_parameters.h"
#include "serve/protocol/served_model.h"

namespace neuronmm::serve {

using RandomSource = std::function<uint64_t()>;  // of seeds and ids

// A request for one prompt; what it does not say is said by the model, and a seed by `random`.
// `chat`: an answer ends at the end of a turn, too. Errors: ids outside of the vocabulary, more
// tokens at least than at most.
ApiResult<Request> engine_request(const ServedModel& model, const GenerationParameters& fields,
                                  std::vector<TokenId> prompt, bool chat,
                                  const RandomSource& random);

}  // namespace neuronmm::serve
