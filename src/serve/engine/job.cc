#include "serve/engine/job.h"

#include <limits>

namespace neuronmm::serve {

Job::Job(RequestId number, Request wanted, std::shared_ptr<Listener> asker,
         const SequenceCapacity& capacity)
    : id(number),
      priority(wanted.priority),
      cache_salt(std::move(wanted.cache_salt)),
      wanted_prompt_logprobs(wanted.prompt_logprobs),
      listener(std::move(asker)),
      unfinished(wanted.choices) {
  const int64_t left = capacity.tokens() - std::ssize(wanted.prompt);
  model::GenerateOptions options = {
      .max_new_tokens = wanted.max_new_tokens.value_or(std::numeric_limits<int64_t>::max()),
      .sampling = std::move(wanted.sampling),
      .stop_tokens = std::move(wanted.stop_tokens),
      .logprobs = wanted.logprobs,
      .min_new_tokens = wanted.min_new_tokens};
  sequences.reserve(static_cast<size_t>(wanted.choices));
  for (int64_t i = 0; i < wanted.choices; ++i) {
    sequences.emplace_back(
        *this, i,
        model::Continuation(wanted.prompt, options, left,
                            wanted.make_constraint ? wanted.make_constraint() : nullptr));
    ++options.sampling.seed;
  }
}

}  // namespace neuronmm::serve
