#pragma once
// What the engine's thread does: which sequences take part in the next forward pass, with which
// tokens, and what becomes of their logits.
//
// A step first has the next token of every answer that is being decoded, then chunks of prompts.
// Smaller priorities come first, then older requests. Half of the chunk goes to the first of the
// prompts, the rest to the shortest ones: a short prompt does not wait for a long one, nor a long
// one for many short ones. Where memory is short the last of the sequences gives its own back and
// is computed anew later; its sampler and constraint stay as they are, so that the answer does too.

#include <compare>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/transformer.h"
#include "serve/engine/job.h"
#include "serve/engine/kv_memory.h"
#include "serve/engine/statistics.h"

namespace neuronmm::serve {

class Scheduler {
 public:
  struct Limits {
    int64_t max_sequences, chunk_tokens, kv_blocks, sequence_tokens;
  };
  Scheduler(const model::Transformer& transformer, const Limits& limits);

  void add(std::unique_ptr<Job> job);
  void cancel(RequestId id);
  void end_all(FinishReason reason, const std::string& message);
  bool idle() const { return jobs_.empty(); }
  // One forward pass, after a plan of it, which listeners are told of. Throws LoopsStopped when it
  // is broken off.
  void plan_step();
  void run_step();
  int64_t forget_finished();  // returns how many requests

  Statistics statistics() const;
  int64_t queued_requests() const { return queued_requests_; }

 private:
  struct Key {
    int64_t priority;
    RequestId request;
    int64_t choice;
    auto operator<=>(const Key&) const = default;
  };
  // Tokens of an answer in the next forward pass.
  struct Part {
    Sequence* sequence;
    int64_t tokens;
    model::Logits logits;
  };
  // What became of it: its rows of logits and, where its answer is being decoded, the next token,
  // or what choosing it threw.
  struct Outcome {
    Part part;
    const model::Predictions& predictions;
    int64_t first_row, rows;
    int64_t last_row() const { return first_row + rows - 1; }
    std::optional<Result<model::Step>> step = {};
    std::exception_ptr thrown = nullptr;
  };

  static Key key_of(const Sequence& sequence);
  void preempt(Sequence& sequence);
  bool reserve_next_position(Sequence& sequence);
  void plan_decoding();
  void admit();
  void plan_chunks();
  void start_jobs();
  static std::vector<ops::WantedLogits> wanted_of(const Part& part);
  std::optional<model::Predictions> run_parts();
  void count_step(int64_t tokens, double seconds);
  void keep(const Outcome& outcome);
  void choose(Outcome& outcome);
  void tell(Outcome& outcome);
  void add_prompt_logprobs(const Outcome& outcome);
  void finish_prompt(const Outcome& outcome);
  void take_step(Sequence& sequence, Result<model::Step> step);
  void finish(Sequence& sequence, FinishReason reason, std::optional<TokenId> stop_token = {},
              const std::string& message = "");
  void leave_queue(Job& job);
  template <typename Work>
  void guard(Sequence& sequence, const Work& work);

  const model::Transformer& transformer_;
  const Limits limits_;
  KvMemory memory_;
  std::map<RequestId, std::unique_ptr<Job>> jobs_;
  std::map<Key, Sequence*> waiting_, running_;
  std::vector<RequestId> finished_;  // to be forgotten
  std::vector<Part> parts_;          // of the step
  int64_t queued_requests_ = 0;      // that were never admitted
  Statistics statistics_;            // since the start
};

}  // namespace neuronmm::serve
