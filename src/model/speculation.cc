#include "model/speculation.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/parallel.h"
#include "base/workers_lost.h"

namespace neuronmm::model {

void DraftCounts::add(const DraftCounts& other) {
  drafts += other.drafts;
  proposed += other.proposed;
  accepted += other.accepted;
}

Extension extend(Continuation& sequence, const Predictions& predictions, int64_t first_row,
                 std::span<const Proposal> proposals) {
  Extension extension;
  for (int64_t row = first_row;; ++row) {
    Result<Step> step = sequence.extend(predictions.row(row), predictions.log_sum(row));
    const bool has_token = step.ok() && step->token;
    const bool goes_on = has_token && !step->stop;
    const bool accepted =
        has_token && !proposals.empty() && *step->token == proposals.front().token;
    extension.steps.push_back(std::move(step));
    if (!accepted) return extension;
    ++extension.accepted;
    if (!goes_on) return extension;
    proposals = proposals.subspan(1);
  }
}

Speculation::Speculation(std::unique_ptr<Draft> draft, const ops::Backend& backend)
    : draft_(std::move(draft)), backend_(backend) {}

std::unique_ptr<DraftState> Speculation::begin(const std::string& salt) {
  if (failure_) return nullptr;
  try {
    return draft_->begin(salt);
  } catch (const std::exception& error) {
    failure_ = error.what();
    return nullptr;
  }
}

void Speculation::propose(std::vector<DraftTask>& tasks) {
  draft_seconds_ = 0.0;
  if (failure_) return;
  sequences_ = std::max<int64_t>(1, std::ssize(tasks));
  const DraftPrices prices = prices_.prices(sequences_, draft_->proposal_seconds(sequences_));
  for (DraftTask& task : tasks) {
    const int64_t limit = std::min(task.most, kMostProposals);
    const auto allowance = task.state->odds.next(prices.check + prices.draft, limit, sequences_);
    task.most = allowance.most;
    task.trial = allowance.trial;
  }
  if (std::ranges::none_of(tasks, [](const DraftTask& task) { return task.most > 0; })) return;
  const double start = backend_.clock_seconds();
  try {
    if (const Status done = draft_->propose(tasks, prices); !done.ok())
      fail_with(done.error().message, tasks);
  } catch (const LoopsStopped&) {
    throw;
  } catch (const WorkersLost&) {
    throw;
  } catch (const std::exception& error) {
    fail_with(error.what(), tasks);
  }
  draft_seconds_ = backend_.clock_seconds() - start;
}

void Speculation::fail_with(const std::string& message, std::vector<DraftTask>& tasks) {
  failure_ = message;
  for (DraftTask& task : tasks) {
    task.proposals.clear();
    task.wanted.clear();
  }
}

void Speculation::record(const DraftTask& task, int64_t accepted) {
  if (task.proposals.empty()) return;
  task.state->odds.record(task.proposals, accepted);
  counts_.add({1, std::ssize(task.proposals), accepted});
}

void Speculation::record_step(int64_t rows, int64_t tokens, double model_seconds) {
  prices_.record({rows, sequences_, tokens, model_seconds, std::exchange(draft_seconds_, 0.0)});
}

}  // namespace neuronmm::model
