#include "serve/engine/engine.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <list>
#include <mutex>
#include <new>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unistd.h>

#include "base/parallel.h"
#include "base/workers_lost.h"
#include "model/ngram_draft.h"
#include "serve/engine/draft_memory.h"
#include "serve/engine/job.h"
#include "serve/engine/scheduler.h"

namespace neuronmm::serve {
namespace {

// A client may have at most this many times as much in the queue as is free. A new client therefore
// finds room, however many requests the others send. This is the dynamic threshold of Choudhury and
// Hahne (IEEE/ACM Transactions on Networking 6, 1998). Assumed: one client alone can use 7/8 of the
// queue.
constexpr int64_t kMostOfFree = 7;

// Returns the number of blocks if the options do not give a limit (see kDefaultKvContexts). The
// result is never less than one context.
int64_t default_blocks(const EngineOptions& options, int64_t context_blocks, int64_t block_bytes) {
  const int64_t short_answer_blocks =
      std::min<int64_t>(context_blocks, kDefaultKvPositions / ops::kKvBlock);
  const int64_t wanted =
      std::max(kDefaultKvContexts * context_blocks, options.max_sequences * short_answer_blocks);
  const int64_t physical = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  const auto most_bytes =
      static_cast<int64_t>(static_cast<double>(physical) * kDefaultKvMemoryShare);
  return std::max(context_blocks, std::min(wanted, most_bytes / block_bytes));
}

}  // namespace

SequenceCapacity sequence_capacity(const model::Transformer& transformer,
                                   const EngineOptions& options) {
  const int64_t model_context = transformer.config().max_position_embeddings;
  const int64_t wanted = options.context_tokens;
  SequenceCapacity capacity;
  capacity.context = wanted > 0 ? std::min(wanted, model_context) : model_context;
  const int64_t context_blocks = (capacity.context + ops::kKvBlock - 1) / ops::kKvBlock;
  const int64_t block_bytes = kv_block_bytes(transformer, options);
  const int64_t blocks = options.kv_cache_bytes > 0
                             ? options.kv_cache_bytes / block_bytes
                             : default_blocks(options, context_blocks, block_bytes);
  capacity.kv_cache = blocks * ops::kKvBlock;
  return capacity;
}

// A backend that keeps no values has blocks of 0 bytes, which are counted as if they had one.
int64_t kv_block_bytes(const model::Transformer& transformer, const EngineOptions& options) {
  const model::Transformer* const draft = options.draft.model;
  const int64_t of_draft = draft != nullptr ? draft->make_cache(1)->block_bytes() : 0;
  return std::max<int64_t>(1, transformer.make_cache(1)->block_bytes() + of_draft);
}

namespace {

// Returns the bytes of a pass of `rows` rows with `logit_rows` rows of logits. The factors are the
// numbers of matrices with so many columns that exist together. Assumed: counted in the code of the
// layers, and checked by a test against what a server allocates.
int64_t pass_bytes(const io::ModelConfig& config, int64_t rows, int64_t logit_rows) {
  constexpr int64_t kFloatBytes = 4;
  const int64_t heads = config.num_attention_heads + config.num_key_value_heads;
  const int64_t row_floats =
      5 * config.hidden_size + 3 * heads * config.head_dim + 4 * config.active_neurons() +
      (config.experts ? 2 * config.hidden_size : 0);  // the rows of one expert
  // Large matrices take whole huge pages (base/scratch_matrix.h), which on average wastes a half.
  constexpr int64_t kHugePages = 8 * (int64_t{2} << 20), kPooled = int64_t{256} << 10;
  const int64_t rounding = kFloatBytes * rows * config.hidden_size >= kPooled ? kHugePages : 0;
  return kFloatBytes * (rows * row_floats + logit_rows * config.vocab_size) + rounding;
}

std::unique_ptr<model::Draft> make_draft(const model::Transformer& transformer,
                                         const EngineOptions& options,
                                         const SequenceCapacity& capacity) {
  const int64_t vocabulary = transformer.config().vocab_size;
  if (options.draft.lookup) return std::make_unique<model::NgramDraft>(vocabulary);
  const model::Transformer* const draft = options.draft.model;
  if (draft == nullptr) return nullptr;
  const int64_t tokens = std::min(capacity.tokens(), draft->config().max_position_embeddings);
  auto memory = std::make_unique<DraftMemory>(*draft, capacity.kv_cache / ops::kKvBlock, tokens,
                                              options.reserve_kv_cache);
  return std::make_unique<model::DraftModel>(*draft, std::move(memory), vocabulary,
                                             options.chunk_tokens);
}

}  // namespace

int64_t step_memory_bytes(const model::Transformer& transformer, const EngineOptions& options) {
  // Each thread may sample for one sequence, which takes a candidate per token of the vocabulary
  // (model/candidates.h). Assumed: everything else is smaller than kRest.
  constexpr int64_t kSampledTokenBytes = 16, kRest = int64_t{8} << 20;
  const io::ModelConfig& config = transformer.config();
  const int64_t rows = options.chunk_tokens + options.max_sequences;
  const bool drafts = options.draft.lookup || options.draft.model != nullptr;
  const int64_t checked = drafts ? Scheduler::kProposalRows : 0;
  int64_t bytes = pass_bytes(config, rows + checked,
                             options.max_sequences + Scheduler::kPromptLogprobRows + checked) +
                  num_threads() * kSampledTokenBytes * config.vocab_size + kRest;
  // The draft's pass comes before the model's, but freed memory may stay with the process.
  if (options.draft.model != nullptr)
    bytes += pass_bytes(options.draft.model->config(), rows, options.max_sequences);
  return bytes;
}

// The lock is held only while data is passed between threads, never during a step or while a
// listener is called.
class Engine::Impl {
 public:
  Impl(const model::Transformer& transformer, const EngineOptions& options)
      : transformer_(transformer),
        options_(options),
        capacity_(sequence_capacity(transformer, options)),
        scheduler_(transformer,
                   {options.max_sequences, options.chunk_tokens, capacity_.kv_cache / ops::kKvBlock,
                    capacity_.tokens(), options.reserve_kv_cache},
                   make_draft(transformer, options, capacity_), options.draft.on_failure),
        snapshot_(scheduler_.statistics()) {
    NMM_CHECK(options.max_sequences >= 1 && options.chunk_tokens >= 1 && capacity_.kv_cache > 0);
    thread_ = std::thread([this] { run(); });
  }

  ~Impl() { abort(); }

  Admission submit(Request request, std::shared_ptr<Listener> listener) {
    if (auto refused = find_refusal(request, transformer_, capacity_))
      return {0, refused->reason, std::move(refused->message)};
    const int64_t tokens = std::ssize(request.prompt);
    {
      const std::lock_guard lock(mutex_);
      if (auto refused = find_queue_refusal(request.client, tokens)) return std::move(*refused);
    }
    // Making a job may take long, so the lock is not held. Other requests may fill the queue
    // meanwhile, which is why the queue is checked again.
    auto job =
        std::make_unique<Job>(++last_id_, std::move(request), std::move(listener), capacity_);
    const RequestId id = job->id;
    {
      const std::lock_guard lock(mutex_);
      if (auto refused = find_queue_refusal(job->client, tokens)) return std::move(*refused);
      Queued& queued = queued_[job->client];
      incoming_.push_back(std::move(job));  // if it throws, an entry without requests stays
      ++queued.requests;
      queued.tokens += tokens;
      incoming_tokens_ += tokens;
      ++unfinished_requests_;
    }
    wake_.notify_one();
    return {id, std::nullopt, ""};
  }

  void cancel(RequestId id) {
    try {
      const std::lock_guard lock(mutex_);
      cancelled_.push_back(id);
    } catch (const std::bad_alloc&) {
      return;  // the listener ends the answer with its next token
    }
    wake_.notify_one();
  }

  void stop_admission() {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }

  bool idle() const {
    const std::lock_guard lock(mutex_);
    return unfinished_requests_ == 0;
  }

  void abort() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      aborting_ = true;
    }
    wake_.notify_one();
    if (std::this_thread::get_id() == worker_) return;
    const std::lock_guard lock(join_mutex_);
    if (thread_.joinable()) thread_.join();
  }

  Statistics statistics() const {
    const std::lock_guard lock(mutex_);
    Statistics now = snapshot_;
    now.waiting += std::ssize(incoming_);
    now.queued_tokens += incoming_tokens_;
    return now;
  }

 private:
  // The part of the queue that a client has.
  struct Queued {
    int64_t requests = 0, tokens = 0;
  };

  // Returns the refusal of a prompt of `tokens` tokens if the engine is stopping, or if the queue
  // is full for this client. A prompt that finds an empty queue is accepted whatever its length.
  // The caller holds the lock.
  std::optional<Admission> find_queue_refusal(const std::string& client, int64_t tokens) const {
    if (stopping_) return Admission{0, Refusal::kStopping, "the engine takes no new requests"};
    const auto found = queued_.find(client);
    const Queued own = found == queued_.end() ? Queued() : found->second;
    const int64_t requests = queued_requests_ + std::ssize(incoming_);
    const int64_t free_requests = options_.max_queued_requests - requests;
    const int64_t queued = snapshot_.queued_tokens + incoming_tokens_;
    const int64_t free_tokens = options_.max_queued_tokens - queued - tokens;
    if (free_requests <= 0)
      return Admission{0, Refusal::kQueueFull,
                       fmt::format("{} requests wait, and at most {} may", requests,
                                   options_.max_queued_requests)};
    if (queued > 0 && free_tokens < 0)
      return Admission{0, Refusal::kQueueFull,
                       fmt::format("{} tokens of prompts wait: with {} more there are too many, at "
                                   "most {} may",
                                   queued, tokens, options_.max_queued_tokens)};
    if (own.requests >= kMostOfFree * free_requests ||
        (own.tokens > 0 && own.tokens + tokens > kMostOfFree * free_tokens))
      return Admission{
          0, Refusal::kQueueFull,
          fmt::format("{} requests with {} tokens of this client wait, and the rest of "
                      "the queue is kept for others",
                      own.requests, own.tokens)};
    return std::nullopt;
  }

  void run() {
    worker_ = std::this_thread::get_id();
    const StoppableLoops stoppable(aborting_);
    while (!aborting_) {
      try {
        wait_for_requests();
        if (!aborting_) scheduler_.plan_step();
        publish_statistics();
        if (!aborting_) scheduler_.run_step();
      } catch (const LoopsStopped&) {  // aborting_ is set, so the loop ends
      } catch (const WorkersLost& error) {
        end_all(FinishReason::kLost, error.what());
      } catch (const std::bad_alloc&) {
        scheduler_.relieve_memory();
      } catch (const std::exception& error) {
        end_all(FinishReason::kError, error.what());
      }
      publish_statistics();
    }
    wait_for_requests();  // requests that came during the last step must be ended, too
    end_all(FinishReason::kCancelled, "the engine was stopped");
    publish_statistics();
  }

  void end_all(FinishReason reason, const char* message) {
    try {
      scheduler_.end_all(reason, message);
    } catch (const std::bad_alloc&) {  // for the message
      scheduler_.end_all(reason, {});
    }
  }

  // Sleeps until there is something to do. Then passes new requests and cancellations to the
  // scheduler.
  void wait_for_requests() {
    std::vector<std::unique_ptr<Job>> jobs;
    std::vector<RequestId> cancelled;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] {
        return aborting_ || !incoming_.empty() || !cancelled_.empty() || !scheduler_.idle();
      });
      jobs.swap(incoming_);
      cancelled.swap(cancelled_);
      queued_requests_ += std::ssize(jobs);
      snapshot_.waiting += std::ssize(jobs);
      snapshot_.queued_tokens += std::exchange(incoming_tokens_, 0);
    }
    int64_t ended = 0;
    for (std::unique_ptr<Job>& job : jobs) ended += scheduler_.add(std::move(job)) ? 0 : 1;
    for (const RequestId id : cancelled) scheduler_.cancel(id);
    if (ended == 0) return;
    const std::lock_guard lock(mutex_);
    unfinished_requests_ -= ended;
  }

  // Makes the scheduler's counters visible to other threads.
  void publish_statistics() {
    const int64_t ended = scheduler_.delete_finished();
    const Statistics now = scheduler_.statistics();
    const std::list<Departure> departures = scheduler_.take_departures();
    const std::lock_guard lock(mutex_);
    for (const auto& [client, tokens] : departures) {
      const auto queued = queued_.find(client);
      queued->second.tokens -= tokens;
      if (--queued->second.requests == 0) queued_.erase(queued);
    }
    snapshot_ = now;
    queued_requests_ = scheduler_.queued_requests();
    unfinished_requests_ -= ended;
  }

  const model::Transformer& transformer_;
  const EngineOptions options_;
  const SequenceCapacity capacity_;
  Scheduler scheduler_;  // only the engine's thread uses it
  std::atomic<RequestId> last_id_ = 0;

  mutable std::mutex mutex_;  // guards the members up to stopping_
  std::condition_variable wake_;
  std::vector<std::unique_ptr<Job>> incoming_;
  int64_t incoming_tokens_ = 0;
  std::unordered_map<std::string, Queued> queued_;  // the clients that have requests in the queue
  std::vector<RequestId> cancelled_;
  Statistics snapshot_;
  int64_t queued_requests_ = 0;      // the number of requests in the scheduler's queue
  int64_t unfinished_requests_ = 0;  // the number of requests that have not finished
  bool stopping_ = false;
  std::atomic<bool> aborting_ = false;

  std::atomic<std::thread::id> worker_;
  std::mutex join_mutex_;
  std::thread thread_;
};

Engine::Engine(const model::Transformer& transformer, const EngineOptions& options)
    : impl_(std::make_unique<Impl>(transformer, options)) {}
Engine::~Engine() = default;

Admission Engine::submit(Request request, std::shared_ptr<Listener> listener) {
  return impl_->submit(std::move(request), std::move(listener));
}
void Engine::cancel(RequestId id) { impl_->cancel(id); }
void Engine::stop_admission() { impl_->stop_admission(); }
bool Engine::idle() const { return impl_->idle(); }
Statistics Engine::statistics() const { return impl_->statistics(); }
void Engine::abort() { impl_->abort(); }

}  // namespace neuronmm::serve
