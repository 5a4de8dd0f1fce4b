#pragma once
// Serves many requests with one model: continuous batching with chunked prefill, paged keys and
// values that requests with a common prefix share, admission, preemption and cancellation. One
// thread runs the model; all of these functions may be called from any thread and never wait for
// it.

#include <cstdint>
#include <memory>
#include <string>

#include "model/transformer.h"
#include "serve/engine/request.h"
#include "serve/engine/statistics.h"

namespace neuronmm::serve {

struct EngineOptions {
  int64_t max_sequences = 64;           // answers that are computed together
  int64_t max_queued_tokens = 1 << 18;  // of the prompts that wait
  int64_t max_queued_requests = 1024;
  int64_t kv_cache_bytes = 0;  // 0: what the model's context takes four times, at least
  int64_t context_tokens = 0;  // prompt and answer of a sequence; 0: the model's
  int64_t chunk_tokens = 512;  // of prompts in one step: what others' tokens wait for at most
};

using RequestId = uint64_t;

enum class Refusal {
  kInvalid,        // an id outside the vocabulary, an empty prompt, a value out of range
  kContextLength,  // the prompt leaves no room in the context for one token
  kNeverFits,      // more keys and values than the whole budget has room for
  kQueueFull,      // may be tried again later
  kStopping,       // the engine takes no new work
};

struct Admission {
  RequestId id = 0;  // where it was not refused
  std::optional<Refusal> refusal;
  std::string message;  // why it was refused, with both numbers
};

class Engine {
 public:
  // `transformer` must outlive the engine. Starts its thread.
  Engine(const model::Transformer& transformer, const EngineOptions& options);
  ~Engine();  // aborts

  Admission submit(Request request, std::shared_ptr<Listener> listener);
  // All answers of the request end within one step, wherever they are. An id that is finished or
  // unknown is ignored: a client that goes away may be late.
  void cancel(RequestId id);

  void stop_admission();          // new work is refused; what was admitted goes on
  bool idle() const;              // nothing is queued or running
  void abort();                   // cancels everything and ends the thread
  Statistics statistics() const;  // a snapshot
};

}  // namespace neuronmm::serve
