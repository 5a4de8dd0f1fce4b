#include "serve/engine/scheduler.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/parallel.h"
#include "base/workers_lost.h"

namespace neuronmm::serve {
namespace {

// Rows of logits of a step that prompts' logprobs are taken from: with a vocabulary of 150,000
// tokens they are 77 MB.
constexpr int64_t kLogprobRows = 128;

std::string message_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error)) return "the system has no memory left";
  return error.what();
}

FinishReason reason_of(model::Stop stop) {
  const bool full = stop == model::Stop::kLimit || stop == model::Stop::kContextFull;
  return full ? FinishReason::kLength : FinishReason::kStop;
}

}  // namespace

Scheduler::Scheduler(const model::Transformer& transformer, const Limits& limits)
    : transformer_(transformer),
      limits_(limits),
      memory_(transformer, limits.kv_blocks, limits.sequence_tokens) {}

Scheduler::Key Scheduler::key_of(const Sequence& sequence) {
  return {sequence.job.priority, sequence.job.id, sequence.choice};
}

void Scheduler::add(std::unique_ptr<Job> job) {
  Sequence& first = job->sequences[0];
  ++queued_requests_;
  statistics_.queued_tokens += std::ssize(job->prompt());
  waiting_.emplace(key_of(first), &first);
  jobs_.emplace(job->id, std::move(job));
}

void Scheduler::cancel(RequestId id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  for (Sequence& sequence : found->second->sequences) finish(sequence, FinishReason::kCancelled);
}

void Scheduler::end_all(FinishReason reason, const std::string& message) {
  for (const auto& [id, job] : jobs_) {
    for (Sequence& sequence : job->sequences) finish(sequence, reason, {}, message);
  }
}

void Scheduler::plan_step() {
  parts_.clear();
  plan_decoding();
  admit();
  plan_chunks();
  start_jobs();
}

void Scheduler::run_step() {
  if (parts_.empty()) return;
  const std::optional<model::Predictions> predictions = run_parts();
  if (!predictions) return;
  std::vector<Outcome> outcomes;
  int64_t row = 0;
  for (const Part& part : parts_) {
    const bool all = part.logits == model::Logits::kAll;
    const int64_t rows = all ? part.tokens : part.logits == model::Logits::kLast ? 1 : 0;
    outcomes.push_back({.part = part, .predictions = *predictions, .first_row = row, .rows = rows});
    row += rows;
  }
  for (const Outcome& outcome : outcomes) {
    guard(*outcome.part.sequence, [&] { keep(outcome); });
  }
  // Going through a vocabulary takes long enough that other threads had better not wait for it.
  parallel_for(std::ssize(outcomes), [&](int64_t i) { choose(outcomes[static_cast<size_t>(i)]); });
  for (Outcome& outcome : outcomes) {
    guard(*outcome.part.sequence, [&] { tell(outcome); });
  }
}

int64_t Scheduler::forget_finished() {
  for (const RequestId id : finished_) jobs_.erase(id);
  return std::ssize(std::exchange(finished_, {}));
}

// What it had computed in complete blocks stays cached until somebody needs the room.
void Scheduler::preempt(Sequence& sequence) {
  sequence.memory.reset();
  running_.erase(key_of(sequence));
  waiting_.emplace(key_of(sequence), &sequence);
  ++statistics_.preemptions;
}

// For one token more. The last of all gives way, so that the first always goes on.
bool Scheduler::reserve_next_position(Sequence& sequence) {
  while (!sequence.memory->reserve(sequence.memory->length() + 1)) {
    Sequence& last = *running_.rbegin()->second;
    preempt(last);
    if (&last == &sequence) return false;
  }
  return true;
}

void Scheduler::plan_decoding() {
  std::vector<Sequence*> decoding;
  for (const auto& [key, sequence] : running_) {
    if (sequence->decoding()) decoding.push_back(sequence);
  }
  for (Sequence* const sequence : decoding) {
    bool fits = false;
    guard(*sequence, [&] { fits = sequence->memory && reserve_next_position(*sequence); });
    if (fits) parts_.push_back({sequence, 1, model::Logits::kLast});
  }
}

// In order: what does not fit yet holds up what comes after it, or it would wait for ever.
void Scheduler::admit() {
  while (!waiting_.empty() && std::ssize(running_) < limits_.max_sequences) {
    Sequence& sequence = *waiting_.begin()->second;
    const std::span<const TokenId> tokens = sequence.continuation.tokens();
    bool fits = false;
    guard(sequence, [&] {
      auto memory = std::make_unique<SequenceMemory>(memory_, sequence.job.cache_salt);
      if (!sequence.job.lacks_prompt_logprobs()) memory->reuse(tokens);
      fits = memory->reserve(std::ssize(tokens));
      if (fits) sequence.memory = std::move(memory);
    });
    if (sequence.done) continue;
    if (!fits) return;
    waiting_.erase(key_of(sequence));
    running_.emplace(key_of(sequence), &sequence);
    leave_queue(sequence.job);
  }
}

void Scheduler::leave_queue(Job& job) {
  if (std::exchange(job.was_admitted, true)) return;
  --queued_requests_;
  statistics_.queued_tokens -= std::ssize(job.prompt());
}

void Scheduler::plan_chunks() {
  std::vector<Part> prompts;
  for (const auto& [key, sequence] : running_) {
    if (sequence->decoding()) continue;
    // A request with the same beginning may have come by in the meantime.
    if (!sequence->job.lacks_prompt_logprobs())
      sequence->memory->reuse(sequence->continuation.tokens());
    prompts.push_back({sequence, 0, model::Logits::kNone});
  }
  if (prompts.empty()) return;
  const auto pending = [](const Part& part) { return std::ssize(part.sequence->pending()); };
  const int64_t of_first = std::min(pending(prompts[0]), (limits_.chunk_tokens + 1) / 2);
  prompts[0].tokens = of_first;
  std::ranges::stable_sort(prompts, {}, pending);
  int64_t left = limits_.chunk_tokens - of_first, logprob_rows = kLogprobRows;
  for (Part& part : prompts) {
    const int64_t more = std::min(pending(part) - part.tokens, left);
    part.tokens += more;
    left -= more;
    if (part.sequence->job.lacks_prompt_logprobs()) {
      part.tokens = std::min(part.tokens, logprob_rows);
      part.logits = model::Logits::kAll;
      logprob_rows -= part.tokens;
    } else if (part.tokens == pending(part)) {
      part.logits = model::Logits::kLast;
    }
    if (part.tokens > 0) parts_.push_back(part);
  }
}

void Scheduler::start_jobs() {
  for (const Part& part : parts_) {
    Job& job = part.sequence->job;
    if (std::exchange(job.was_started, true)) continue;
    const PromptUsage usage = {std::ssize(job.prompt()), part.sequence->memory->length()};
    statistics_.prompt_tokens += usage.prompt_tokens;
    statistics_.cached_prompt_tokens += usage.cached_tokens;
    statistics_.prefix_queries += usage.prompt_tokens;
    statistics_.prefix_hits += usage.cached_tokens;
    guard(*part.sequence, [&] { job.listener->on_start(usage); });
  }
  std::erase_if(parts_, [](const Part& part) { return part.sequence->done; });
}

// A prompt's rows tell of the tokens that follow in it; the last is what its answers begin with,
// which differ by their seeds alone.
std::vector<ops::WantedLogits> Scheduler::wanted_of(const Part& part) {
  if (part.logits == model::Logits::kNone) return {};
  const Sequence& sequence = *part.sequence;
  const bool complete = part.tokens == std::ssize(sequence.pending());
  const ops::WantedLogits next =
      complete ? sequence.continuation.wanted() : ops::WantedLogits{.all = false};
  if (part.logits == model::Logits::kLast) return {next};
  std::vector<ops::WantedLogits> wanted;
  for (int64_t i = 1; i <= part.tokens; ++i) {
    const int64_t following = sequence.memory->length() + i;
    ops::WantedLogits row = {
        .all = false, .best = *sequence.job.wanted_prompt_logprobs, .log_sum = true};
    if (following < std::ssize(sequence.job.prompt())) {
      row.named = {sequence.job.prompt()[static_cast<size_t>(following)]};
    }
    wanted.push_back(i == part.tokens ? merged(row, next) : row);
  }
  return wanted;
}

// Nothing where it failed: that ends all of the parts' answers.
std::optional<model::Predictions> Scheduler::run_parts() {
  std::vector<model::SequenceTokens> batch;
  int64_t tokens = 0;
  for (const Part& part : parts_) {
    const Sequence& sequence = *part.sequence;
    batch.push_back({sequence.pending().first(static_cast<size_t>(part.tokens)),
                     &sequence.memory->cache(), part.logits, wanted_of(part)});
    tokens += part.tokens;
  }
  const ops::Backend& backend = transformer_.backend();
  std::string message;
  try {
    const double start = backend.clock_seconds();
    const Status ready = backend.prepare(tokens);
    if (ready.ok()) {
      model::Predictions predictions = transformer_.predict(batch);
      count_step(tokens, backend.clock_seconds() - start);
      return predictions;
    }
    message = ready.error().message;
  } catch (const LoopsStopped&) {
    throw;
  } catch (const WorkersLost&) {  // all sequences end with these
    throw;
  } catch (const std::exception& error) {
    message = message_of(error);
  }
  for (const Part& part : parts_) finish(*part.sequence, FinishReason::kError, {}, message);
  return std::nullopt;
}

void Scheduler::count_step(int64_t tokens, double seconds) {
  ++statistics_.steps;
  statistics_.step_seconds += seconds;
  statistics_.step_tokens_sum += tokens;
  const auto bucket = std::ranges::lower_bound(kStepTokenBounds, tokens);
  ++statistics_.step_tokens[static_cast<size_t>(bucket - kStepTokenBounds.begin())];
}

// What the step computed that outlives it.
void Scheduler::keep(const Outcome& outcome) {
  const Sequence& sequence = *outcome.part.sequence;
  sequence.memory->publish(sequence.continuation.tokens());
  if (outcome.part.logits == model::Logits::kAll) add_prompt_logprobs(outcome);
}

// The next token of an answer that has some. Nobody else touches the answer meanwhile.
void Scheduler::choose(Outcome& outcome) {
  Sequence& sequence = *outcome.part.sequence;
  if (sequence.done || !sequence.pending().empty() || sequence.continuation.generated().empty())
    return;
  try {
    const int64_t row = outcome.last_row();
    outcome.step = sequence.continuation.extend(outcome.predictions.row(row),
                                                outcome.predictions.log_sum(row));
  } catch (...) {
    outcome.thrown = std::current_exception();
  }
}

void Scheduler::tell(Outcome& outcome) {
  Sequence& sequence = *outcome.part.sequence;
  if (sequence.done) return;  // by an earlier part's listener
  if (outcome.thrown) std::rethrow_exception(outcome.thrown);
  if (outcome.step) return take_step(sequence, std::move(*outcome.step));
  if (sequence.pending().empty()) finish_prompt(outcome);
}

// Row i is after token first + i. It tells of the token that follows, if that is the prompt's;
// after a preemption some are known.
void Scheduler::add_prompt_logprobs(const Outcome& outcome) {
  const Part& part = outcome.part;
  Job& job = part.sequence->job;
  const int64_t first = part.sequence->memory->length() - part.tokens;
  const int64_t known = std::ssize(job.prompt_logprobs);
  const int64_t end = std::min(first + part.tokens, std::ssize(job.prompt()) - 1);
  if (end <= known) return;
  job.prompt_logprobs.resize(static_cast<size_t>(end));
  parallel_for(end - known, [&](int64_t i) {
    const auto position = static_cast<size_t>(known + i);
    const int64_t row = outcome.first_row + known + i - first;
    job.prompt_logprobs[position] =
        model::token_logprobs(outcome.predictions.row(row), job.prompt()[position + 1],
                              *job.wanted_prompt_logprobs, outcome.predictions.log_sum(row));
  });
}

// All answers begin with these logits, and with what is in memory now. Where there is no room for
// one, it is computed anew later.
void Scheduler::finish_prompt(const Outcome& outcome) {
  Sequence& first = *outcome.part.sequence;
  const std::span<const float> logits = outcome.predictions.row(outcome.last_row());
  const auto log_sum = outcome.predictions.log_sum(outcome.last_row());
  Job& job = first.job;
  if (job.wanted_prompt_logprobs) job.listener->on_prompt_logprobs(std::move(job.prompt_logprobs));
  for (Sequence& sequence : job.sequences) {
    if (&sequence == &first || first.continuation.limit() <= 0) continue;
    if (std::ssize(running_) < limits_.max_sequences) sequence.memory = first.memory->fork();
    (sequence.memory ? running_ : waiting_).emplace(key_of(sequence), &sequence);
  }
  job.prompt_done = true;
  for (Sequence& sequence : job.sequences) {
    guard(sequence, [&] {
      if (sequence.continuation.limit() <= 0) {
        finish(sequence, FinishReason::kLength);
      } else {
        take_step(sequence, sequence.continuation.extend(logits, log_sum));
      }
    });
  }
}

void Scheduler::take_step(Sequence& sequence, Result<model::Step> step) {
  if (!step.ok()) return finish(sequence, FinishReason::kError, {}, step.error().message);
  bool go_on = true;
  if (step->token) {
    ++statistics_.generated_tokens;
    const GeneratedToken token = {*step->token, std::move(step->logprobs)};
    go_on = sequence.job.listener->on_token(sequence.choice, token);
  }
  if (!go_on) return finish(sequence, FinishReason::kStop);
  if (step->stop) finish(sequence, reason_of(*step->stop), step->stop_token);
}

void Scheduler::finish(Sequence& sequence, FinishReason reason, std::optional<TokenId> stop_token,
                       const std::string& message) {
  if (std::exchange(sequence.done, true)) return;
  Job& job = sequence.job;
  leave_queue(job);
  sequence.memory.reset();
  running_.erase(key_of(sequence));
  waiting_.erase(key_of(sequence));
  if (--job.unfinished == 0) finished_.push_back(job.id);
  try {
    job.listener->on_finish(sequence.choice, reason, stop_token, message);
  } catch (const std::exception&) {  // there is nobody left to tell
  }
  if (job.prompt_done || sequence.choice > 0) return;
  for (Sequence& other : job.sequences)
    finish(other, reason, {}, message);  // they had waited for it
}

// What a listener or a constraint throws, or the system when memory runs out, ends one answer.
template <typename Work>
void Scheduler::guard(Sequence& sequence, const Work& work) {
  try {
    work();
  } catch (const LoopsStopped&) {
    throw;
  } catch (const WorkersLost&) {  // all sequences end with these
    throw;
  } catch (const std::exception& error) {
    finish(sequence, FinishReason::kError, {}, message_of(error));
  }
}

Statistics Scheduler::statistics() const {
  Statistics now = statistics_;
  now.running = std::ssize(running_);
  now.waiting = std::ssize(jobs_);
  RequestId previous = 0;
  for (const auto& [key, sequence] : running_) {
    if (std::exchange(previous, key.request) != key.request) --now.waiting;
  }
  now.kv_blocks = memory_.blocks();
  now.kv_blocks_in_use = memory_.in_use();
  now.kv_blocks_cached = memory_.cached();
  return now;
}

}  // namespace neuronmm::serve
