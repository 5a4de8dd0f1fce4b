#pragma once
// A request on its way through the engine, and its answers.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/continuation.h"
#include "serve/engine/admission.h"
#include "serve/engine/engine.h"
#include "serve/engine/kv_memory.h"
#include "serve/engine/request.h"

namespace neuronmm::serve {

struct Job;

struct Sequence {
  Sequence(Job& of, int64_t number, model::Continuation made)
      : job(of), choice(number), continuation(std::move(made)) {}

  // Tokens that still have to run: of a prompt, or the last one made.
  std::span<const TokenId> pending() const {
    return continuation.tokens().subspan(static_cast<size_t>(memory->length()));
  }
  bool decoding() const { return !continuation.generated().empty() && pending().size() == 1; }

  Job& job;
  const int64_t choice;
  model::Continuation continuation;
  std::unique_ptr<SequenceMemory> memory = nullptr;  // while it runs
  bool done = false;
};

// A request on its way. Its first answer computes the prompt, the others go on from there.
struct Job {
  Job(RequestId number, Request wanted, std::shared_ptr<Listener> asker,
      const SequenceCapacity& capacity);

  const RequestId id;
  const int64_t priority;
  const std::string cache_salt;
  const std::optional<int64_t> wanted_prompt_logprobs;
  const std::shared_ptr<Listener> listener;
  std::vector<Sequence> sequences;
  std::vector<model::TokenLogprobs> prompt_logprobs;  // so far
  int64_t unfinished;
  bool was_admitted = false, was_started = false;
  bool prompt_done = false;  // and the other sequences are on their own way

  std::span<const TokenId> prompt() const { return sequences[0].continuation.prompt(); }
  bool lacks_prompt_logprobs() const {
    return wanted_prompt_logprobs && !prompt_done && prompt_logprobs.size() + 1 < prompt().size();
  }
};

}  // namespace neuronmm::serve
