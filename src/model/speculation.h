#pragma once
// How an engine decodes with a draft (draft.h). Before each pass of the model the engine asks for
// proposals, computes them as further rows of their sequences, extends each sequence row by row,
// and reports what happened. generate() and the server's scheduler do so.
//
// A draft that fails is not used again. The texts go on without it.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/draft.h"
#include "model/forward_pass.h"
#include "model/step_prices.h"
#include "ops/backend.h"

namespace neuronmm::model {

// Numbers of proposals, in tokens. Each step in which a sequence had proposals is a draft.
struct DraftCounts {
  int64_t drafts = 0, proposed = 0, accepted = 0;
  void add(const DraftCounts& other);
};

// The steps of one sequence after one pass of the model.
struct Extension {
  std::vector<Result<Step>> steps;  // the last one may be an error or end the sequence
  int64_t accepted = 0;             // the number of proposals that were chosen
};
// Extends a sequence by the logits in the rows first_row, first_row + 1, ..., the first of which
// follows its last token. Row i + 1 counts only if proposal i was chosen from row i.
Extension extend(Continuation& sequence, const Predictions& predictions, int64_t first_row,
                 std::span<const Proposal> proposals);

class Speculation {
 public:
  // Times are those of the backend's clock; it must outlive the object.
  Speculation(std::unique_ptr<Draft> draft, const ops::Backend& backend);

  // Returns the state of a new sequence, which must not outlive the object, or null if the draft
  // has failed or fails now.
  std::unique_ptr<DraftState> begin(const std::string& salt = "");
  // Sets the proposals of the tasks. `most` of each is the number of tokens that the sequence may
  // still have, without the one that it gets anyway. Throws LoopsStopped and WorkersLost only.
  void propose(std::vector<DraftTask>& tasks);
  // Learns how many proposals of a task were accepted.
  void record(const DraftTask& task, int64_t accepted);
  // Learns how long the model took for the rows of a step, and how many tokens came of them.
  void record_step(int64_t rows, int64_t tokens, double model_seconds);

  // Returns memory that no sequence uses to the system, and how many blocks that was.
  int64_t release_unused() { return draft_->release_unused(); }

  const DraftCounts& counts() const { return counts_; }
  // Returns why the draft does not work any more.
  const std::optional<std::string>& failure() const { return failure_; }

 private:
  void fail_with(const std::string& message, std::vector<DraftTask>& tasks);

  const std::unique_ptr<Draft> draft_;
  const ops::Backend& backend_;
  StepPrices prices_;
  // The sequences and the draft's time of the step that is being computed.
  int64_t sequences_ = 1;
  double draft_seconds_ = 0.0;
  DraftCounts counts_;
  std::optional<std::string> failure_;
};

}  // namespace neuronmm::model
