#pragma once
// The state that the scheduler keeps about a request and about each of its answers. Engine::submit
// makes a Job, and afterwards only the engine's thread touches it.

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/continuation.h"
#include "model/draft.h"
#include "serve/engine/admission.h"
#include "serve/engine/engine.h"
#include "serve/engine/fair_queue.h"
#include "serve/engine/kv_memory.h"
#include "serve/engine/request.h"

namespace neuronmm::serve {

struct Job;

// An answer of a request, with its tokens and its keys and values.
struct Sequence {
  Sequence(Job& of, int64_t number, model::Continuation made)
      : job(of), choice(number), continuation(std::move(made)) {}

  // Returns the tokens that have no keys and values in `memory`: a part of the prompt, or the
  // newest token of the answer. After a preemption they include the whole answer so far. Requires
  // `memory`.
  std::span<const TokenId> pending() const {
    return continuation.tokens().subspan(static_cast<size_t>(memory->length()));
  }
  // Returns whether only the newest token of the answer has to be computed.
  bool decoding() const { return !continuation.generated().empty() && pending().size() == 1; }

  Job& job;
  const int64_t choice;
  model::Continuation continuation;
  std::unique_ptr<SequenceMemory> memory = nullptr;    // null while the sequence waits or is done
  std::unique_ptr<model::DraftState> draft = nullptr;  // null before the first proposals
  bool done = false;
};

// A request that left the queue, because it was admitted or has ended.
struct Departure {
  std::string client;
  int64_t prompt_tokens;
};

// A request and its answers. The first sequence computes the prompt. When the prompt is complete,
// the other sequences start from the first sequence's keys and values.
struct Job {
  Job(RequestId request_id, Request request, std::shared_ptr<Listener> answer_listener,
      const SequenceCapacity& capacity);

  const RequestId id;
  const int64_t priority;
  const std::string client, cache_salt;
  const std::optional<int64_t> wanted_prompt_logprobs;
  const std::shared_ptr<Listener> listener;
  ClientShare* share = nullptr;    // what the client has, from FairQueue::enter() to leave()
  std::list<Departure> departure;  // one, which moves to the scheduler without an allocation
  std::vector<Sequence> sequences;
  std::vector<model::TokenLogprobs> prompt_logprobs;  // those computed until this step
  std::optional<PooledEmbedding> embedding;           // what is computed of it, if it is wanted
  int64_t unfinished;                                 // the number of answers that have not ended
  // Whether the request has left the queue (after a preemption it may wait again), and whether
  // on_start was called.
  bool was_admitted = false, was_started = false;
  bool prompt_done = false;  // whether the prompt is complete and the other sequences have started

  std::span<const TokenId> prompt() const { return sequences[0].continuation.prompt(); }
  bool lacks_prompt_logprobs() const {
    return wanted_prompt_logprobs && !prompt_done && prompt_logprobs.size() + 1 < prompt().size();
  }
  // Returns whether every token of the prompt has to be computed, although the keys and values of
  // some may be cached.
  bool needs_every_token() const {
    return lacks_prompt_logprobs() || (embedding && embedding->needs_every_token());
  }
};

}  // namespace neuronmm::serve
