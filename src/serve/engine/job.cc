#include "serve/engine/job.h"

#include <limits>

namespace neuronmm::serve {

Job::Job(RequestId request_id, Request request, std::shared_ptr<Listener> answer_listener,
         const SequenceCapacity& capacity)
    : id(request_id),
      priority(request.priority),
      client(std::move(request.client)),
      cache_salt(std::move(request.cache_salt)),
      wanted_prompt_logprobs(request.embedding ? std::nullopt : request.prompt_logprobs),
      listener(std::move(answer_listener)),
      departure{{client, std::ssize(request.prompt)}},
      unfinished(request.choices) {
  if (request.embedding) embedding.emplace(*request.embedding);
  const int64_t left = capacity.tokens() - std::ssize(request.prompt);
  model::GenerateOptions options = {
      .max_new_tokens = request.max_new_tokens.value_or(std::numeric_limits<int64_t>::max()),
      .sampling = std::move(request.sampling),
      .stop_tokens = std::move(request.stop_tokens),
      .logprobs = request.logprobs,
      .min_new_tokens = request.min_new_tokens};
  sequences.reserve(static_cast<size_t>(request.choices));
  for (int64_t i = 0; i < request.choices; ++i) {
    sequences.emplace_back(
        *this, i,
        model::Continuation(request.prompt, options, left,
                            request.make_constraint ? request.make_constraint() : nullptr));
    ++options.sampling.seed;
  }
}

}  // namespace neuronmm::serve
