#pragma once
// The engine serves many requests with one model. The server's HTTP handlers submit requests to it
// and receive tokens through listeners (request.h). The engine provides continuous batching with
// chunked prefill, paged keys and values that requests with a common prefix share, admission,
// preemption and cancellation. One thread runs the model. All functions here may be called from any
// thread, and only abort() waits for the engine's thread.
//
// An answer does not depend on what else runs: it is the answer that generate() gives for its
// prompt, options and seed. If a single answer needs more than the whole memory of keys and values,
// it ends with kLength, as it does at the end of the context.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "model/transformer.h"
#include "serve/engine/admission.h"
#include "serve/engine/request.h"
#include "serve/engine/statistics.h"

namespace neuronmm::serve {

// The memory for keys and values that EngineOptions::kv_cache_bytes 0 stands for. It is enough for
// so many contexts, or for so many positions of every sequence if that is more, and at most this
// share of the machine's memory. Assumed: too large a limit costs nothing, because unused blocks
// are not allocated.
inline constexpr int64_t kDefaultKvContexts = 4, kDefaultKvPositions = 1024;
inline constexpr double kDefaultKvMemoryShare = 0.5;

// How tokens are proposed (model/draft.h). At most one of `model` and `lookup` is set.
struct DraftOptions {
  const model::Transformer* model = nullptr;  // on the same backend; it must outlive the engine
  bool lookup = false;                        // from the text so far (model/ngram_draft.h)
  // Called once on the engine's thread with the reason if the draft fails. Answers then go on
  // without it.
  std::function<void(const std::string&)> on_failure = nullptr;
};

struct EngineOptions {
  int64_t max_sequences = 64;  // the largest number of answers that are computed together
  // The largest number of tokens of all waiting prompts. A prompt that finds an empty queue may be
  // longer. One client can use 7/8 of both limits, and less if others wait, too.
  int64_t max_queued_tokens = 1 << 18;
  int64_t max_queued_requests = 1024;
  // A hard limit for keys and values, which is rounded down to whole blocks of 128 positions and
  // must hold at least one block. Memory is allocated when it is needed. 0 chooses the memory that
  // kDefaultKvContexts and its neighbours describe.
  int64_t kv_cache_bytes = 0;
  // Whether the whole memory for keys and values is allocated at the start, so that nothing else
  // can take it. It takes space only as far as it is used.
  bool reserve_kv_cache = false;
  // The largest number of tokens of a sequence, prompt and answer together. 0 or a value above the
  // model's limit chooses the model's limit.
  int64_t context_tokens = 0;
  // The largest number of prompt tokens in one step. It bounds how long prompts delay the next
  // tokens of answers that are being decoded.
  int64_t chunk_tokens = 128;
  // A model that drafts gets a part of kv_cache_bytes, so that it has as many positions as the
  // model.
  DraftOptions draft = {};
};

// Returns how many tokens a sequence may have in an engine with these options. `kv_cache` is 0 if
// the memory that the options allow is smaller than one block.
SequenceCapacity sequence_capacity(const model::Transformer& transformer,
                                   const EngineOptions& options);

// Returns the bytes of a block of keys and values of the model, together with a block of the draft.
int64_t kv_block_bytes(const model::Transformer& transformer, const EngineOptions& options);

// Returns an upper bound of the memory in bytes that an engine with these options allocates for its
// steps: activations, logits and sampling. The model and the keys and values are not included.
int64_t step_memory_bytes(const model::Transformer& transformer, const EngineOptions& options);

using RequestId = uint64_t;

struct Admission {
  RequestId id = 0;                // set if the request was not refused
  std::optional<Refusal> refusal;  // set if it was
  std::string message;             // says why it was refused, with the limit and the value found
};

// The part of an engine that a caller needs to submit requests. Tests implement it themselves.
class EngineInterface {
 public:
  virtual ~EngineInterface() = default;
  // Queues a request, or refuses it. The listener may be called before this function returns.
  virtual Admission submit(Request request, std::shared_ptr<Listener> listener) = 0;
  // Ends all answers of the request within one step. An unknown or finished id is ignored, because
  // a client may disconnect at any time.
  virtual void cancel(RequestId id) = 0;
};

class Engine : public EngineInterface {
 public:
  // Starts the engine's thread. `transformer` must outlive the engine, and nobody else may use it
  // or its backend meanwhile. The options must allow a sequence, a chunk of one token and a block
  // of key-value memory.
  Engine(const model::Transformer& transformer, const EngineOptions& options);
  ~Engine() override;  // calls abort()

  Admission submit(Request request, std::shared_ptr<Listener> listener) override;
  void cancel(RequestId id) override;

  // Refuses new requests from this call on. Requests that were accepted go on.
  void stop_admission();
  // Returns whether no request is queued or running.
  bool idle() const;
  // Returns the counters as they were before or after the latest step.
  Statistics statistics() const;
  // Cancels all requests, ends the engine's thread and waits for its end. A running forward pass is
  // stopped between two of its loops. If a listener calls abort(), the call does not wait.
  void abort();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace neuronmm::serve
