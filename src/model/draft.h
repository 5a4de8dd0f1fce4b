#pragma once
// Speculative decoding: a draft proposes tokens, and one forward pass of the model checks several
// of them. This file has the interface of drafts; speculation.h says how an engine uses one.
//
// Each token is chosen from the model's own logits with the sequence's own random numbers, and a
// proposal is accepted if it is the token that was chosen. The text is therefore the text that the
// model writes without a draft, for every seed, grammar and penalty. For proposals that are not
// drawn at random, this accepts as often as the rejection rule of Leviathan et al. (ICML 2023,
// arXiv 2211.17192) and Chen et al. (arXiv 2302.01318): the probability is the one that the model
// gives to the proposal. A draft that is a model draws with the random number with which the model
// will draw, so that similar distributions lead to the same token.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/continuation.h"
#include "model/proposal_odds.h"

namespace neuronmm::model {

// The largest number of proposals for one pass of the model, whose rows are then one tile of AMX.
// Assumed: chances and prices end most proposals earlier.
inline constexpr int64_t kMostProposals = 15;

// The state that a draft keeps for one sequence.
class DraftState {
 public:
  explicit DraftState(const PriorChances& prior) : odds(prior) {}
  virtual ~DraftState() = default;
  DraftState(const DraftState&) = delete;
  DraftState& operator=(const DraftState&) = delete;

  ProposalOdds odds;
};

// The costs of a proposal, in tokens that could be written in the same time.
struct DraftPrices {
  double check = 0.0;  // one more row in the pass of the model
  double draft = 0.0;  // one more proposal of the draft
};

// A sequence for which a draft proposes tokens, and the proposals.
struct DraftTask {
  const Continuation* sequence = nullptr;
  DraftState* state = nullptr;
  int64_t most = 0;    // the largest number of proposals; 0 asks for none
  bool trial = false;  // whether to propose `most` tokens whatever their chances are

  std::vector<Proposal> proposals = {};
  // The logits that the sequence needs after its last token and after each proposal. Empty if there
  // are no proposals.
  std::vector<ops::WantedLogits> wanted = {};
};

class Draft {
 public:
  virtual ~Draft() = default;
  // Makes the state of a sequence that begins. Sequences share keys and values of a common prefix
  // only if their salts are equal.
  virtual std::unique_ptr<DraftState> begin(const std::string& salt) = 0;
  // Sets the proposals of all tasks, possibly none. Errors: the draft does not work. It must not be
  // used after an error or an exception.
  virtual Status propose(std::vector<DraftTask>& tasks, const DraftPrices& prices) = 0;
  // Returns the time that a proposal takes if `texts` sequences get one together, in seconds of the
  // backend's clock, or nothing if it has not been measured yet.
  virtual std::optional<double> proposal_seconds(int64_t /*texts*/) const { return 0.0; }
  // Returns memory that no sequence uses to the system, and how many blocks that was.
  virtual int64_t release_unused() { return 0; }
};

}  // namespace neuronmm::model
