#pragma once
// Which requests can be served at all.

#include <cstdint>
#include <optional>
#include <string>

#include "model/transformer.h"
#include "serve/engine/request.h"

namespace neuronmm::serve {

enum class Refusal {
  kInvalid,        // an id outside the vocabulary, an empty prompt, a value out of range
  kContextLength,  // the prompt leaves no room in the context for a token, if one is wanted
  kNeverFits,      // more keys and values than the whole budget has room for
  kQueueFull,      // may be tried again later
  kStopping,       // the engine takes no new work
};

struct Refused {
  Refusal reason;
  std::string message;  // why, with both numbers
};

// What a sequence has room for, in tokens.
struct SequenceCapacity {
  int64_t context = 0;   // by the model, or by the engine's options
  int64_t kv_cache = 0;  // by the memory of all sequences together
  int64_t tokens() const { return context < kv_cache ? context : kv_cache; }
};

std::optional<Refused> find_refusal(const Request& request, const model::Transformer& transformer,
                                    const SequenceCapacity& capacity);

}  // namespace neuronmm::serve
