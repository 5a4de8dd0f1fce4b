#pragma once
// The scheduler decides which sequences take part in the next forward pass and with which tokens.
// It runs the pass, chooses the next tokens from the logits and calls the listeners. The engine's
// thread (engine.cc) is its only user, and no other thread may call it.
//
// A step contains the next token of every answer that is being decoded, and after those a chunk of
// tokens of prompts. Requests with a smaller priority value come first, then those of the client
// that was served least (fair_queue.h), then older requests. Half of the chunk belongs to the first
// prompt, the rest to the shortest prompts. A short prompt thus does not wait for a long one, and a
// long prompt does not wait for many short ones.
//
// If memory is short, the scheduler preempts the last sequence: its blocks are given back, and its
// keys and values are computed again later. It does the same to sequences of a client that has more
// than its share of slots or memory, while another client waits. The sequence keeps its tokens, its
// sampler and its constraint, so its answer does not change.
//
// With a draft (model/draft.h), the next token of an answer is followed by tokens that the draft
// proposes. The pass checks them, and an answer may get several tokens from it.

#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/speculation.h"
#include "model/transformer.h"
#include "serve/engine/fair_queue.h"
#include "serve/engine/job.h"
#include "serve/engine/kv_memory.h"
#include "serve/engine/statistics.h"

namespace neuronmm::serve {

class Scheduler {
 public:
  struct Limits {
    int64_t max_sequences, chunk_tokens, kv_blocks, sequence_tokens;
    bool reserve_blocks = false;  // whether all blocks are allocated at the start
  };
  // The largest number of proposals in one step. They are divided among the answers. Assumed: it
  // bounds the memory of logits, and more rows take as long as they save.
  static constexpr int64_t kProposalRows = 64;
  // The largest number of prompt tokens per step whose log-probabilities are computed. Assumed: it
  // bounds the memory of their logits, to 77 MB with a vocabulary of 150,000 tokens.
  static constexpr int64_t kPromptLogprobRows = 128;
  using OnDraftFailure = std::function<void(const std::string&)>;
  // `draft` may be null. `on_draft_failure` is called once with the reason if the draft fails.
  Scheduler(const model::Transformer& transformer, const Limits& limits,
            std::unique_ptr<model::Draft> draft = nullptr,
            OnDraftFailure on_draft_failure = nullptr);

  // Queues a request. Returns false if there is no memory for that; its answers have then ended.
  bool add(std::unique_ptr<Job> job);
  // Ends the answers of one request. An unknown id is ignored.
  void cancel(RequestId id);
  // Ends the answers of all requests.
  void end_all(FinishReason reason, const std::string& message);
  bool idle() const { return jobs_.empty(); }
  // Decides what the next forward pass computes, and calls on_start of requests that begin.
  void plan_step();
  // Runs the planned forward pass and reports its tokens to the listeners. Throws LoopsStopped if
  // the pass is stopped, and WorkersLost if helper processes are gone. Other errors end the answers
  // concerned.
  void run_step();
  // Gives memory back after an allocation has failed: blocks that no sequence holds, or else those
  // of the longest sequence that runs, whose answer ends. If none runs, the first answer that waits
  // ends.
  void relieve_memory();
  // Deletes the requests whose answers have all ended, and returns their number.
  int64_t delete_finished();

  Statistics statistics() const;
  // Returns the number of requests that were never admitted.
  int64_t queued_requests() const { return queued_requests_; }
  // Returns the requests that have left the queue since the last call.
  std::list<Departure> take_departures() { return std::exchange(departures_, {}); }

 private:
  // The tokens of one sequence that the next forward pass computes, and the logits that it needs.
  struct PlannedTokens {
    Sequence* sequence;
    int64_t tokens;  // the first pending tokens, this many
    model::Logits logits;
    model::HiddenStates hidden = model::HiddenStates::kNone;
    // What a draft proposes to follow, and the input then: the pending token and the proposals.
    model::DraftTask draft = {};
    std::vector<TokenId> checked = {};

    int64_t proposals() const { return std::ssize(draft.proposals); }
    int64_t logit_rows() const;
    int64_t hidden_rows() const;
  };
  // The result of planned tokens: their rows of logits and, if the answer is being decoded, the
  // next tokens or the exception that choosing them threw.
  struct Outcome {
    const PlannedTokens& planned;
    const model::Predictions& predictions;
    int64_t first_row, rows;   // of the logits
    int64_t first_hidden_row;  // of the hidden states
    int64_t last_row() const { return first_row + rows - 1; }
    model::Extension extension = {};
    std::exception_ptr thrown = nullptr;
  };

  void make_room();
  void preempt(Sequence& sequence);
  bool reserve_next_position(Sequence& sequence);
  void plan_decoding();
  void admit();
  void plan_chunks();
  void start_jobs();
  static std::vector<ops::WantedLogits> wanted_logits(const PlannedTokens& planned);
  std::optional<model::Predictions> run_plan();
  Status compute_plan(std::optional<model::Predictions>& predictions);
  void end_plan(FinishReason reason, const std::string& message);
  void use_predictions(const model::Predictions& predictions, std::vector<Outcome>& outcomes);
  void count_step(int64_t tokens, double seconds);
  void keep_results(const Outcome& outcome);
  void propose();
  void plan_proposals(PlannedTokens& planned, model::DraftTask task);
  void report_draft_failure();
  void record_speculation(const std::vector<Outcome>& outcomes);
  void choose_tokens(Outcome& outcome);
  void report(Outcome& outcome);
  void add_prompt_logprobs(const Outcome& outcome);
  void finish_prompt(const Outcome& outcome);
  void finish_embedding(Sequence& sequence);
  void report_token(Sequence& sequence, Result<model::Step> step);
  void finish(Sequence& sequence, FinishReason reason, std::optional<TokenId> stop_token = {},
              const std::string& message = "");
  static void report_end(const Sequence& sequence, FinishReason reason,
                         std::optional<TokenId> stop_token, const std::string& message);
  void leave_queue(Job& job);
  template <typename Work>
  void run_for_one_answer(Sequence& sequence, const Work& work);

  const model::Transformer& transformer_;
  const Limits limits_;
  KvMemory memory_;
  std::optional<model::Speculation> speculation_;  // the sequences' draft states refer to it
  OnDraftFailure on_draft_failure_;                // empty after it was called
  double pass_seconds_ = 0.0;                      // of the latest pass of the model
  std::map<RequestId, std::unique_ptr<Job>> jobs_;
  FairQueue queue_;
  std::list<Departure> departures_;
  std::vector<RequestId> finished_;  // the requests that delete_finished() will delete
  std::vector<PlannedTokens> plan_;  // the plan of the next forward pass
  int64_t queued_requests_ = 0;      // the number of requests that were never admitted
  Statistics statistics_;  // only the counters since the start; statistics() adds the rest
};

}  // namespace neuronmm::serve
