#pragma once
// Decides which requests the engine can serve at all. Engine::submit asks before it queues a
// request.

#include <cstdint>
#include <optional>
#include <string>

#include "model/transformer.h"
#include "serve/engine/request.h"

namespace neuronmm::serve {

enum class Refusal {
  kInvalid,        // a token id is outside the vocabulary, the prompt empty or a value out of range
  kContextLength,  // the context cannot hold the prompt and one token of the answer, if any is
                   // wanted
  kNeverFits,      // the whole key-value memory cannot hold the prompt and one token of the answer
  kQueueFull,      // too much waits; the caller may try again later
  kStopping,       // the engine takes no new work
};

struct Refused {
  Refusal reason;
  std::string message;  // says what was expected and what was found
};

// The largest number of tokens that a sequence may have, prompt and answer together.
struct SequenceCapacity {
  int64_t context = 0;   // the limit of the model, or a lower one from the engine's options
  int64_t kv_cache = 0;  // the tokens that the memory of all sequences together can hold
  int64_t tokens() const { return context < kv_cache ? context : kv_cache; }
};

// Returns why the request can never be served, or nothing if it can. kQueueFull and kStopping are
// not checked here, since they depend on the engine's state.
std::optional<Refused> find_refusal(const Request& request, const model::Transformer& transformer,
                                    const SequenceCapacity& capacity);

}  // namespace neuronmm::serve
