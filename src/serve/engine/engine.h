#pragma once
// Serves many requests with one model: continuous batching with chunked prefill, paged keys and
// values that requests with a common prefix share, admission, preemption and cancellation. One
// thread runs the model; all of these functions may be called from any thread and never wait for
// it.
//
// What an answer is does not depend on what else runs: it is what generate() makes of its prompt,
// options and seed. An answer that alone grows beyond the whole memory of keys and values ends with
// kLength, as at the end of the context.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "model/transformer.h"
#include "serve/engine/admission.h"
#include "serve/engine/request.h"
#include "serve/engine/statistics.h"

namespace neuronmm::serve {

struct EngineOptions {
  int64_t max_sequences = 64;           // answers that are computed together
  int64_t max_queued_tokens = 1 << 18;  // of the prompts that wait; one that is alone may have more
  int64_t max_queued_requests = 1024;
  // A hard limit, in whole blocks of 128 positions, of which it has to hold one; memory is taken as
  // it is needed.
  int64_t kv_cache_bytes = 0;  // 0: four contexts, or 1,024 positions per sequence
  int64_t context_tokens = 0;  // prompt and answer of a sequence; 0, or beyond it: the model's
  int64_t chunk_tokens = 128;  // of prompts in one step: what others' tokens wait for at most
};

// What a sequence of such an engine has room for. `kv_cache` is 0 where the memory that the options
// allow is less than one block.
SequenceCapacity sequence_capacity(const model::Transformer& transformer,
                                   const EngineOptions& options);

using RequestId = uint64_t;

struct Admission {
  RequestId id = 0;  // where it was not refused
  std::optional<Refusal> refusal;
  std::string message;  // why it was refused, with both numbers
};

// What a caller that only submits requests needs of an engine. Tests put one of their own in its
// place.
class EngineInterface {
 public:
  virtual ~EngineInterface() = default;
  // The listener may be called before this returns.
  virtual Admission submit(Request request, std::shared_ptr<Listener> listener) = 0;
  // All answers of the request end within one step, wherever they are. An id that is finished or
  // unknown is ignored: a client that goes away may be late.
  virtual void cancel(RequestId id) = 0;
};

class Engine : public EngineInterface {
 public:
  // `transformer` must outlive the engine, and nobody else uses it or its backend meanwhile. Starts
  // its thread.
  Engine(const model::Transformer& transformer, const EngineOptions& options);
  ~Engine() override;  // aborts

  Admission submit(Request request, std::shared_ptr<Listener> listener) override;
  void cancel(RequestId id) override;

  void stop_admission();          // new work is refused; what was admitted goes on
  bool idle() const;              // nothing is queued or running
  Statistics statistics() const;  // a snapshot, taken after a step
  // Cancels everything and ends the thread: within a step, since a forward pass is broken off
  // between two of its loops. Waits for that, but not where a listener calls it.
  void abort();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace neuronmm::serve
