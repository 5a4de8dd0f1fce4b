#pragma once
// How likely proposals of a draft are accepted, learned for each sequence while it is written. A
// draft grades each proposal by its evidence: a model by how far the best logit is ahead, a lookup
// by how many tokens agree. For each grade, the odds follow the share that was accepted lately.

#include <array>
#include <cstdint>
#include <span>

#include "text/tokenizer/token_id.h"

namespace neuronmm::model {

using text::TokenId;

// The number of grades. Grade 0 is the weakest evidence.
inline constexpr size_t kEvidenceGrades = 8;
// The chances that proposals of each grade have before the first one was checked.
using PriorChances = std::array<double, kEvidenceGrades>;

struct Proposal {
  TokenId token = 0;
  size_t grade = 0;
};

class ProposalOdds {
 public:
  explicit ProposalOdds(const PriorChances& prior);

  // Returns the chance that a proposal is accepted if the ones before it are: of this grade, and of
  // an unknown grade.
  double chance(size_t grade) const { return chances_[grade]; }
  double mean_chance() const { return mean_; }

  // The number of proposals that are allowed for the next token.
  struct Allowance {
    int64_t most = 0;
    bool trial = false;  // whether chances do not matter
  };
  // Returns the allowance of one of `sequences` if a proposal costs `price` tokens. If a proposal
  // costs more than it brings, the allowance is 0 for a while, and then a trial of a few proposals.
  // The pause between trials doubles up to kLongestPause calls, times the number of sequences,
  // because all of them wait while the draft reads what was written in the pause. Call it once per
  // token.
  Allowance next(double price, int64_t limit, int64_t sequences = 1);
  // Learns that the first `accepted` proposals were accepted. The one after them was rejected, and
  // nothing is known about the rest.
  void record(std::span<const Proposal> proposals, int64_t accepted);

  static constexpr int64_t kFirstPause = 8, kLongestPause = 128, kHopelessPause = 1024, kTrial = 3;

 private:
  PriorChances chances_;
  double mean_;
  int64_t pause_ = kFirstPause, waited_ = 0;
};

}  // namespace neuronmm::model
