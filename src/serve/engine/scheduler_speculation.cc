// The part of the scheduler that decodes with a draft: it asks for proposals before a pass, and
// learns afterwards how many were accepted.

#include <algorithm>
#include <new>
#include <utility>

#include "serve/engine/scheduler.h"

namespace neuronmm::serve {
namespace {

// Returns whether there is memory for so many more tokens. Nobody gives up memory for proposals.
bool has_room(SequenceMemory& memory, int64_t tokens) {
  try {
    return memory.reserve(memory.length() + tokens);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace

void Scheduler::propose() {
  if (!speculation_ || speculation_->failure()) return;
  std::vector<PlannedTokens*> decoding;
  for (PlannedTokens& planned : plan_) {
    if (planned.sequence->decoding()) decoding.push_back(&planned);
  }
  if (decoding.empty()) return;
  const int64_t share = kProposalRows / std::ssize(decoding);
  std::vector<model::DraftTask> tasks;
  for (const PlannedTokens* const planned : decoding) {
    Sequence& sequence = *planned->sequence;
    if (!sequence.draft) sequence.draft = speculation_->begin(sequence.job.cache_salt);
    const model::Continuation& text = sequence.continuation;
    const int64_t left = text.limit() - std::ssize(text.generated()) - 1;
    if (!sequence.draft) return report_draft_failure();
    const int64_t alike =
        model::same_rope_tokens(transformer_.config(), sequence.memory->length()) - 1;
    tasks.push_back({&text, sequence.draft.get(), std::min({left, share, alike})});
  }
  speculation_->propose(tasks);
  if (speculation_->failure()) return report_draft_failure();
  for (size_t i = 0; i < tasks.size(); ++i) plan_proposals(*decoding[i], std::move(tasks[i]));
}

void Scheduler::plan_proposals(PlannedTokens& planned, model::DraftTask task) {
  const int64_t proposals = std::ssize(task.proposals);
  if (proposals == 0 || !has_room(*planned.sequence->memory, 1 + proposals)) return;
  planned.checked = {planned.sequence->continuation.tokens().back()};
  for (const model::Proposal& proposal : task.proposals) planned.checked.push_back(proposal.token);
  planned.draft = std::move(task);
  planned.tokens = 1 + proposals;
  planned.logits = model::Logits::kAll;
}

// Gives the draft's memory back, too.
void Scheduler::report_draft_failure() {
  for (const auto& [id, job] : jobs_) {
    for (Sequence& sequence : job->sequences) sequence.draft.reset();
  }
  speculation_->release_unused();
  const OnDraftFailure report = std::exchange(on_draft_failure_, nullptr);
  if (report) report(*speculation_->failure());
}

// Passes that read prompts do not tell what a proposal costs.
void Scheduler::record_speculation(const std::vector<Outcome>& outcomes) {
  if (!speculation_) return;
  int64_t rows = 0, tokens = 0;
  bool only_decodes = true;
  for (const Outcome& outcome : outcomes) {
    const PlannedTokens& planned = outcome.planned;
    const int64_t made = std::ssize(outcome.extension.steps);
    if (planned.proposals() > 0 && planned.sequence->draft)
      speculation_->record(planned.draft, outcome.extension.accepted);
    only_decodes = only_decodes && made > 0;
    rows += planned.tokens;
    tokens += made;
  }
  if (only_decodes) speculation_->record_step(rows, tokens, pass_seconds_);
}

}  // namespace neuronmm::serve
