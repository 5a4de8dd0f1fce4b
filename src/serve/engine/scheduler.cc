#include "serve/engine/scheduler.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/parallel.h"
#include "base/workers_lost.h"

namespace neuronmm::serve {
namespace {

FinishReason reason_of(const std::exception& error) {
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  return no_memory ? FinishReason::kNoMemory : FinishReason::kError;
}

FinishReason reason_of(model::Stop stop) {
  const bool full = stop == model::Stop::kLimit || stop == model::Stop::kContextFull;
  return full ? FinishReason::kLength : FinishReason::kStop;
}

// Returns whether the keys and values of an answer that ended so are worth keeping.
bool computed_its_tokens(FinishReason reason) {
  return reason == FinishReason::kStop || reason == FinishReason::kLength ||
         reason == FinishReason::kCancelled;
}

}  // namespace

Scheduler::Scheduler(const model::Transformer& transformer, const Limits& limits,
                     std::unique_ptr<model::Draft> draft, OnDraftFailure on_draft_failure)
    : transformer_(transformer),
      limits_(limits),
      memory_(transformer, limits.kv_blocks, limits.sequence_tokens),
      on_draft_failure_(std::move(on_draft_failure)) {
  if (draft) speculation_.emplace(std::move(draft), transformer.backend());
  if (limits.reserve_blocks) memory_.allocate_all();
}

bool Scheduler::add(std::unique_ptr<Job> job) {
  Job& added = *job;
  try {
    finished_.reserve(jobs_.size() + 1);  // so that finish() never allocates
    std::unique_ptr<Job>& entry = jobs_[added.id];
    queue_.enter(added);
    queue_.wait(added.sequences[0]);
    entry = std::move(job);
  } catch (const std::bad_alloc&) {
    if (added.share != nullptr) queue_.leave(added);
    jobs_.erase(added.id);
    departures_.splice(departures_.end(), added.departure);
    for (Sequence& sequence : added.sequences)
      report_end(sequence, FinishReason::kNoMemory, {}, {});
    return false;
  }
  ++queued_requests_;
  statistics_.queued_tokens += std::ssize(added.prompt());
  return true;
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
  plan_.clear();
  make_room();
  plan_decoding();
  admit();
  plan_chunks();
  start_jobs();
}

void Scheduler::run_step() {
  if (plan_.empty()) return;
  propose();
  std::vector<Outcome> outcomes;
  outcomes.reserve(plan_.size());
  const std::optional<model::Predictions> predictions = run_plan();
  if (!predictions) return;
  try {
    use_predictions(*predictions, outcomes);
  } catch (const LoopsStopped&) {
    throw;
  } catch (const WorkersLost&) {
    throw;
  } catch (const std::exception& error) {
    // The keys and values are stored, but the next tokens are lost.
    end_plan(reason_of(error), error.what());
  }
}

int64_t Scheduler::PlannedTokens::logit_rows() const {
  return logits == model::Logits::kAll ? tokens : logits == model::Logits::kLast ? 1 : 0;
}

int64_t Scheduler::PlannedTokens::hidden_rows() const {
  using enum model::HiddenStates;
  return hidden == kAll ? tokens : hidden == kLast ? 1 : 0;
}

void Scheduler::use_predictions(const model::Predictions& predictions,
                                std::vector<Outcome>& outcomes) {
  int64_t row = 0, hidden_row = 0;
  for (const PlannedTokens& planned : plan_) {
    outcomes.push_back({.planned = planned,
                        .predictions = predictions,
                        .first_row = row,
                        .rows = planned.logit_rows(),
                        .first_hidden_row = hidden_row});
    row += planned.logit_rows();
    hidden_row += planned.hidden_rows();
  }
  for (const Outcome& outcome : outcomes) {
    run_for_one_answer(*outcome.planned.sequence, [&] { keep_results(outcome); });
  }
  // Choosing a token goes through the whole vocabulary, so the sequences are divided among threads.
  parallel_for(std::ssize(outcomes),
               [&](int64_t i) { choose_tokens(outcomes[static_cast<size_t>(i)]); });
  record_speculation(outcomes);
  for (Outcome& outcome : outcomes) {
    run_for_one_answer(*outcome.planned.sequence, [&] { report(outcome); });
  }
}

int64_t Scheduler::delete_finished() {
  const int64_t deleted = std::ssize(finished_);
  for (const RequestId id : finished_) {
    const auto job = jobs_.find(id);
    queue_.leave(*job->second);
    jobs_.erase(job);
  }
  finished_.clear();
  return deleted;
}

void Scheduler::relieve_memory() {
  const int64_t released =
      memory_.release_unused() + (speculation_ ? speculation_->release_unused() : 0);
  if (released > 0) return;
  const auto length = [](const Sequence& of) { return of.continuation.tokens().size(); };
  Sequence* longest = nullptr;
  for (const auto& [key, sequence] : queue_.running()) {
    if (longest == nullptr || length(*sequence) >= length(*longest)) longest = sequence;
  }
  if (longest == nullptr) longest = queue_.next();
  if (longest != nullptr) finish(*longest, FinishReason::kNoMemory);
}

// Preempts sequences of a client that has more than its share, if the next sequence of the queue
// finds no room and belongs to a client that has less.
void Scheduler::make_room() {
  const Sequence* const next = queue_.next();
  if (next == nullptr) return;
  const int64_t tokens = std::ssize(next->continuation.tokens());
  const int64_t blocks = (tokens + ops::kKvBlock - 1) / ops::kKvBlock;
  for (;;) {
    const bool lacks_slots = std::ssize(queue_.running()) >= limits_.max_sequences;
    if (!lacks_slots && memory_.available() >= blocks) return;
    Sequence* const surplus =
        queue_.find_surplus(*next, lacks_slots ? Shortage::kSlots : Shortage::kMemory);
    if (surplus == nullptr) return;
    preempt(*surplus);
  }
}

// The blocks of the sequence stay in the prefix cache until another sequence needs the memory.
void Scheduler::preempt(Sequence& sequence) {
  sequence.memory->keep_last_block(sequence.continuation.tokens());
  sequence.memory.reset();
  sequence.draft.reset();
  queue_.wait(sequence);
  ++statistics_.preemptions;
}

// Reserves memory for one more token and preempts the last sequences as far as necessary. Returns
// false if the sequence itself had to be preempted. The first sequence never has to be, so there is
// always progress.
bool Scheduler::reserve_next_position(Sequence& sequence) {
  while (!sequence.memory->reserve(sequence.memory->length() + 1)) {
    Sequence& last = *queue_.running().rbegin()->second;
    preempt(last);
    if (&last == &sequence) return false;
  }
  return true;
}

void Scheduler::plan_decoding() {
  std::vector<Sequence*> decoding;
  for (const auto& [key, sequence] : queue_.running()) {
    if (sequence->decoding()) decoding.push_back(sequence);
  }
  for (Sequence* const sequence : decoding) {
    // The next token changes the table by which all keys turn, so the sequence begins again.
    if (sequence->memory && sequence->memory->outgrows_rope()) {
      preempt(*sequence);
      continue;
    }
    bool fits = false;
    run_for_one_answer(*sequence,
                       [&] { fits = sequence->memory && reserve_next_position(*sequence); });
    if (fits) plan_.push_back({sequence, 1, model::Logits::kLast});
  }
}

// Admits sequences strictly in order. If one does not fit yet, those after it wait, too. Otherwise
// a long prompt could wait forever.
void Scheduler::admit() {
  while (std::ssize(queue_.running()) < limits_.max_sequences) {
    Sequence* const next = queue_.next();
    if (next == nullptr) return;
    Sequence& sequence = *next;
    const std::span<const TokenId> tokens = sequence.continuation.tokens();
    bool fits = false;
    run_for_one_answer(sequence, [&] {
      auto memory = std::make_unique<SequenceMemory>(memory_, sequence.job.cache_salt);
      fits = sequence.job.needs_every_token() ? memory->reserve_whole(tokens)
                                              : memory->reserve_with_prefix(tokens);
      if (!fits) return;
      queue_.run(sequence);
      sequence.memory = std::move(memory);
    });
    if (sequence.done) continue;
    if (!fits) return;
    if (!sequence.job.was_admitted) FairQueue::charge(sequence.job, std::ssize(tokens));
    leave_queue(sequence.job);
  }
}

void Scheduler::leave_queue(Job& job) {
  if (std::exchange(job.was_admitted, true)) return;
  --queued_requests_;
  statistics_.queued_tokens -= std::ssize(job.prompt());
  departures_.splice(departures_.end(), job.departure);
}

void Scheduler::plan_chunks() {
  std::vector<PlannedTokens> prompts;
  for (const auto& [key, sequence] : queue_.running()) {
    if (sequence->decoding()) continue;
    // Another request with the same prefix may have computed blocks since this one was admitted.
    if (!sequence->job.needs_every_token())
      sequence->memory->take_cached_blocks(sequence->continuation.tokens());
    prompts.push_back({sequence, 0, model::Logits::kNone});
  }
  if (prompts.empty()) return;
  const auto pending = [](const PlannedTokens& planned) {
    return std::ssize(planned.sequence->pending());
  };
  const auto first = std::ranges::min_element(prompts, {}, [](const PlannedTokens& planned) {
    const Job& job = planned.sequence->job;
    return std::pair(job.priority, job.share->served_tokens);
  });
  const int64_t first_tokens = std::min(pending(*first), (limits_.chunk_tokens + 1) / 2);
  first->tokens = first_tokens;
  std::ranges::stable_sort(prompts, {}, pending);
  int64_t left = limits_.chunk_tokens - first_tokens, logprob_rows = kPromptLogprobRows;
  for (PlannedTokens& planned : prompts) {
    const int64_t more = std::min(pending(planned) - planned.tokens, left);
    planned.tokens += more;
    left -= more;
    const auto& embedding = planned.sequence->job.embedding;
    if (embedding) {
      planned.hidden = embedding->wanted(planned.tokens == pending(planned));
    } else if (planned.sequence->job.lacks_prompt_logprobs()) {
      planned.tokens = std::min(planned.tokens, logprob_rows);
      planned.logits = model::Logits::kAll;
      logprob_rows -= planned.tokens;
    } else if (planned.tokens == pending(planned)) {
      planned.logits = model::Logits::kLast;
    }
    if (planned.tokens > 0) plan_.push_back(planned);
  }
}

void Scheduler::start_jobs() {
  for (const PlannedTokens& planned : plan_) {
    Job& job = planned.sequence->job;
    if (std::exchange(job.was_started, true)) continue;
    const PromptUsage usage = {std::ssize(job.prompt()), planned.sequence->memory->length()};
    statistics_.prompt_tokens += usage.prompt_tokens;
    statistics_.cached_prompt_tokens += usage.cached_tokens;
    statistics_.prefix_queries += usage.prompt_tokens;
    statistics_.prefix_hits += usage.cached_tokens;
    run_for_one_answer(*planned.sequence, [&] { job.listener->on_start(usage); });
  }
  std::erase_if(plan_, [](const PlannedTokens& planned) { return planned.sequence->done; });
}

// Returns which logits each row of planned tokens needs. For log-probabilities of the prompt, a row
// needs the logits of the prompt token that follows. The row of the last pending token also needs
// the logits that the next token is chosen from. The first sequence speaks for all answers there,
// because they differ only in their seeds.
std::vector<ops::WantedLogits> Scheduler::wanted_logits(const PlannedTokens& planned) {
  if (planned.logits == model::Logits::kNone) return {};
  if (planned.proposals() > 0) return planned.draft.wanted;
  const Sequence& sequence = *planned.sequence;
  const bool complete = planned.tokens == std::ssize(sequence.pending());
  const ops::WantedLogits next =
      complete ? sequence.continuation.wanted() : ops::WantedLogits{.all = false};
  if (planned.logits == model::Logits::kLast) return {next};
  std::vector<ops::WantedLogits> wanted;
  for (int64_t i = 1; i <= planned.tokens; ++i) {
    const int64_t following = sequence.memory->length() + i;
    ops::WantedLogits row = {
        .all = false, .num_best = *sequence.job.wanted_prompt_logprobs, .log_sum = true};
    if (following < std::ssize(sequence.job.prompt())) {
      row.named = {sequence.job.prompt()[static_cast<size_t>(following)]};
    }
    wanted.push_back(i == planned.tokens ? union_of(row, next) : row);
  }
  return wanted;
}

// Returns nothing if the forward pass fails. If memory was short, the next step tries again with
// more. Otherwise the answers of all planned sequences end.
std::optional<model::Predictions> Scheduler::run_plan() {
  std::optional<model::Predictions> predictions;
  std::vector<int64_t> lengths;
  for (const PlannedTokens& planned : plan_) lengths.push_back(planned.sequence->memory->length());
  try {
    if (const Status done = compute_plan(predictions); !done.ok())
      end_plan(FinishReason::kError, done.error().message);
  } catch (const LoopsStopped&) {
    throw;
  } catch (const WorkersLost&) {  // the engine ends all sequences
    throw;
  } catch (const std::bad_alloc&) {
    // The pass may have stored all keys and values before it failed.
    for (size_t i = 0; i < plan_.size(); ++i)
      plan_[i].sequence->memory->cache().set_length(lengths[i]);
    relieve_memory();
  } catch (const std::exception& error) {
    end_plan(FinishReason::kError, error.what());
  }
  return predictions;
}

void Scheduler::end_plan(FinishReason reason, const std::string& message) {
  for (const PlannedTokens& planned : plan_) finish(*planned.sequence, reason, {}, message);
}

Status Scheduler::compute_plan(std::optional<model::Predictions>& predictions) {
  std::vector<model::SequenceTokens> batch;
  int64_t tokens = 0;
  for (const PlannedTokens& planned : plan_) {
    const Sequence& sequence = *planned.sequence;
    const auto input = planned.proposals() > 0
                           ? std::span(planned.checked)
                           : sequence.pending().first(static_cast<size_t>(planned.tokens));
    batch.push_back(
        {input, &sequence.memory->cache(), planned.logits, wanted_logits(planned), planned.hidden});
    tokens += planned.tokens;
  }
  const ops::Backend& backend = transformer_.backend();
  const double start = backend.clock_seconds();
  NMM_TRY(backend.prepare(tokens));
  predictions = transformer_.predict(batch);
  pass_seconds_ = backend.clock_seconds() - start;
  count_step(tokens, pass_seconds_);
  return {};
}

void Scheduler::count_step(int64_t tokens, double seconds) {
  ++statistics_.steps;
  statistics_.step_seconds += seconds;
  statistics_.step_tokens_sum += tokens;
  const auto bucket = std::ranges::lower_bound(kStepTokenBounds, tokens);
  ++statistics_.step_tokens[static_cast<size_t>(bucket - kStepTokenBounds.begin())];
}

// Keeps the results that later steps need: complete blocks for the prefix cache, log-probabilities
// of the prompt, and hidden states for its embedding.
void Scheduler::keep_results(const Outcome& outcome) {
  const PlannedTokens& planned = outcome.planned;
  const Sequence& sequence = *planned.sequence;
  // Whether the proposals stay is not known yet.
  sequence.memory->cache().set_length(sequence.memory->length() - planned.proposals());
  sequence.memory->share_blocks(sequence.continuation.tokens());
  if (planned.proposals() > 0) return;
  if (planned.logits == model::Logits::kAll) add_prompt_logprobs(outcome);
  if (planned.hidden == model::HiddenStates::kNone) return;
  const int64_t rows = planned.hidden_rows();
  const auto hidden = outcome.predictions.hidden.view().row_range(outcome.first_hidden_row, rows);
  sequence.job.embedding->add(sequence.memory->length() - rows, hidden);
}

// Chooses the next tokens of an answer that already has tokens. finish_prompt() chooses first
// tokens. Several threads call this function, each for another answer.
void Scheduler::choose_tokens(Outcome& outcome) {
  Sequence& sequence = *outcome.planned.sequence;
  if (sequence.done || !sequence.pending().empty() || sequence.continuation.generated().empty())
    return;
  const bool checks = outcome.planned.proposals() > 0;
  ops::KvCache& cache = sequence.memory->cache();
  try {
    outcome.extension = model::extend(sequence.continuation, outcome.predictions,
                                      checks ? outcome.first_row : outcome.last_row(),
                                      outcome.planned.draft.proposals);
    cache.set_length(cache.length() + outcome.extension.accepted);
  } catch (...) {
    outcome.thrown = std::current_exception();
  }
}

void Scheduler::report(Outcome& outcome) {
  Sequence& sequence = *outcome.planned.sequence;
  if (sequence.done) return;  // keep_results() threw, which ended the answer
  if (outcome.thrown) std::rethrow_exception(outcome.thrown);
  for (Result<model::Step>& step : outcome.extension.steps) {
    if (!sequence.done) report_token(sequence, std::move(step));
  }
  if (!outcome.extension.steps.empty() || !sequence.pending().empty()) return;
  sequence.job.embedding ? finish_embedding(sequence) : finish_prompt(outcome);
}

void Scheduler::finish_embedding(Sequence& sequence) {
  sequence.job.prompt_done = true;
  sequence.job.listener->on_embedding(sequence.job.embedding->value());
  finish(sequence, FinishReason::kStop);
}

// Row i holds the logits after token first + i, so it gives the log-probability of the token after
// that, if it belongs to the prompt. After a preemption some of them are known already.
void Scheduler::add_prompt_logprobs(const Outcome& outcome) {
  const PlannedTokens& planned = outcome.planned;
  Job& job = planned.sequence->job;
  const int64_t first = planned.sequence->memory->length() - planned.tokens;
  const int64_t known = std::ssize(job.prompt_logprobs);
  const int64_t end = std::min(first + planned.tokens, std::ssize(job.prompt()) - 1);
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

// Starts all answers of a request from the logits after its prompt and from the keys and values of
// the first sequence. If there is no memory for an answer, its sequence waits, and its keys and
// values are computed again later.
void Scheduler::finish_prompt(const Outcome& outcome) {
  Sequence& first = *outcome.planned.sequence;
  const std::span<const float> logits = outcome.predictions.row(outcome.last_row());
  const auto log_sum = outcome.predictions.log_sum(outcome.last_row());
  Job& job = first.job;
  if (job.wanted_prompt_logprobs) job.listener->on_prompt_logprobs(std::move(job.prompt_logprobs));
  for (Sequence& sequence : job.sequences) {
    if (&sequence == &first || first.continuation.limit() <= 0) continue;
    if (std::ssize(queue_.running()) < limits_.max_sequences)
      sequence.memory = first.memory->fork();
    sequence.memory ? queue_.run(sequence) : queue_.wait(sequence);
  }
  job.prompt_done = true;
  for (Sequence& sequence : job.sequences) {
    run_for_one_answer(sequence, [&] {
      if (sequence.continuation.limit() <= 0) {
        finish(sequence, FinishReason::kLength);
      } else {
        report_token(sequence, sequence.continuation.extend(logits, log_sum));
      }
    });
  }
}

void Scheduler::report_token(Sequence& sequence, Result<model::Step> step) {
  if (!step.ok()) return finish(sequence, FinishReason::kError, {}, step.error().message);
  bool wants_more = true;
  if (step->token) {
    ++statistics_.generated_tokens;
    FairQueue::charge(sequence.job, FairQueue::kGeneratedCost);
    const GeneratedToken token = {*step->token, std::move(step->logprobs)};
    wants_more = sequence.job.listener->on_token(sequence.choice, token);
  }
  if (!wants_more) return finish(sequence, FinishReason::kStop);
  if (step->stop) finish(sequence, reason_of(*step->stop), step->stop_token);
}

void Scheduler::finish(Sequence& sequence, FinishReason reason, std::optional<TokenId> stop_token,
                       const std::string& message) {
  if (std::exchange(sequence.done, true)) return;
  Job& job = sequence.job;
  leave_queue(job);
  if (sequence.memory && computed_its_tokens(reason))
    sequence.memory->keep_last_block(sequence.continuation.tokens());
  sequence.memory.reset();
  sequence.draft.reset();
  queue_.remove(sequence);
  if (--job.unfinished == 0) finished_.push_back(job.id);
  report_end(sequence, reason, stop_token, message);
  if (job.prompt_done || sequence.choice > 0) return;
  // The other answers had waited for the prompt, which the first sequence cannot finish.
  for (Sequence& other : job.sequences) finish(other, reason, {}, message);
}

void Scheduler::report_end(const Sequence& sequence, FinishReason reason,
                           std::optional<TokenId> stop_token, const std::string& message) {
  try {
    sequence.job.listener->on_finish(sequence.choice, reason, stop_token, message);
  } catch (const std::exception&) {  // the answer has ended, so the error can be reported to nobody
  }
}

// Runs `work`. If a listener or a constraint throws, or memory runs out, only the answer of
// `sequence` ends.
template <typename Work>
void Scheduler::run_for_one_answer(Sequence& sequence, const Work& work) {
  try {
    work();
  } catch (const LoopsStopped&) {
    throw;
  } catch (const WorkersLost&) {  // the engine ends all sequences
    throw;
  } catch (const std::exception& error) {
    const FinishReason reason = reason_of(error);
    finish(sequence, reason, {}, reason == FinishReason::kNoMemory ? "" : error.what());
  }
}

Statistics Scheduler::statistics() const {
  Statistics now = statistics_;
  now.running = std::ssize(queue_.running());
  now.waiting = std::ssize(jobs_);
  RequestId previous = 0;
  for (const auto& [key, sequence] : queue_.running()) {
    if (std::exchange(previous, key.request) != key.request) --now.waiting;
  }
  now.kv_blocks = memory_.blocks();
  now.kv_blocks_in_use = memory_.in_use();
  now.kv_blocks_cached = memory_.cached();
  if (speculation_) {
    const model::DraftCounts& counts = speculation_->counts();
    now.has_draft = true;
    now.drafts = counts.drafts;
    now.proposed_tokens = counts.proposed;
    now.accepted_tokens = counts.accepted;
  }
  return now;
}

}  // namespace neuronmm::serve
