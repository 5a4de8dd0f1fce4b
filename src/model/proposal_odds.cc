#include "model/proposal_odds.h"

#include <algorithm>
#include <numeric>

namespace neuronmm::model {
namespace {

// The share of its old value that an estimate keeps with each proposal that was checked. Assumed:
// about twenty proposals of a grade decide, so that the odds follow a text that changes.
constexpr double kChanceKept = 0.95;
// The mean of all grades, which decides about pauses, keeps this share. Assumed.
constexpr double kMeanKept = 0.9;

void move(double& estimate, double kept, bool accepted) {
  estimate = kept * estimate + (accepted ? 1.0 - kept : 0.0);
}

}  // namespace

// Before the first proposal was checked, all grades count as equally frequent.
ProposalOdds::ProposalOdds(const PriorChances& prior)
    : chances_(prior), mean_(std::accumulate(prior.begin(), prior.end(), 0.0) / kEvidenceGrades) {}

ProposalOdds::Allowance ProposalOdds::next(double price, int64_t limit, int64_t sequences) {
  if (limit <= 0) return {};
  if (mean_ > price) {
    pause_ = kFirstPause;
    waited_ = 0;
    return {.most = limit};
  }
  if (++waited_ <= pause_ * sequences) return {};
  waited_ = 0;
  pause_ = std::min(2 * pause_, kLongestPause);
  return {.most = std::min(kTrial, limit), .trial = true};
}

void ProposalOdds::record(std::span<const Proposal> proposals, int64_t accepted) {
  const int64_t checked = std::min(accepted + 1, std::ssize(proposals));
  for (int64_t i = 0; i < checked; ++i) {
    const bool good = i < accepted;
    move(chances_[proposals[static_cast<size_t>(i)].grade], kChanceKept, good);
    move(mean_, kMeanKept, good);
  }
}

}  // namespace neuronmm::model
