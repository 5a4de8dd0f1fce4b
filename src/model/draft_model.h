#pragma once
// A draft that is a model: smaller than the model whose texts it drafts, or the same with weights
// of fewer bits. It computes one token after the other and stops when the next one would probably
// not pay. It keeps keys and values of its own, which are rolled back to the tokens that were
// accepted.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/draft.h"
#include "model/step_prices.h"
#include "model/transformer.h"

namespace neuronmm::model {

// The keys and values that the draft has of one sequence.
class DraftCache {
 public:
  virtual ~DraftCache() = default;
  virtual ops::KvCache& cache() = 0;
  // Makes room for `positions` tokens. The cache holds a beginning of `tokens`; it may take over
  // more of them that were computed before. Returns false if there is no room now.
  virtual bool prepare(std::span<const TokenId> tokens, int64_t positions) = 0;

  // Forgets everything after the longest beginning that the held tokens share with `tokens`. The
  // last token is always forgotten, because its logits are needed.
  void roll_back(std::span<const TokenId> tokens);

  std::vector<TokenId> held = {};  // exactly the tokens that the cache holds
};

// Makes the caches of sequences.
class DraftCaches {
 public:
  virtual ~DraftCaches() = default;
  virtual std::unique_ptr<DraftCache> make(const std::string& salt) = 0;
  // Takes the cache of a sequence that has ended.
  virtual void give_back(std::unique_ptr<DraftCache> /*cache*/) {}
  // Returns memory that no sequence uses to the system, and how many blocks that was.
  virtual int64_t release_unused() { return 0; }
};

// Returns caches without a limit of memory. The cache of the sequence that ended last is kept for
// the next one, which may begin with the same tokens, as the turns of a conversation do.
std::unique_ptr<DraftCaches> make_draft_caches(const Transformer& transformer);

class DraftModel : public Draft {
 public:
  // `transformer` must outlive the object. The texts have ids below `vocabulary`; those that the
  // draft does not know end its proposals. At most `chunk_tokens` tokens of texts that the draft
  // has not read yet are computed per call, so that other sequences do not wait for them.
  DraftModel(const Transformer& transformer, std::unique_ptr<DraftCaches> caches,
             int64_t vocabulary, int64_t chunk_tokens);

  std::unique_ptr<DraftState> begin(const std::string& salt) override;
  Status propose(std::vector<DraftTask>& tasks, const DraftPrices& prices) override;
  std::optional<double> proposal_seconds(int64_t texts) const override;
  int64_t release_unused() override { return caches_->release_unused(); }

 private:
  class State;
  struct Drafting;

  std::optional<Drafting> prepare(DraftTask& task, int64_t texts, int64_t& chunk_left);
  Status run_pass(std::vector<Drafting>& drafting);
  void choose(Drafting& drafting, std::span<const float> logits) const;
  void measure(double seconds, int64_t rows, int64_t proposals);
  bool adopt(Drafting& drafting, const DraftPrices& prices) const;

  const Transformer& transformer_;
  const std::unique_ptr<DraftCaches> caches_;
  const int64_t vocabulary_, chunk_tokens_;
  bool warm_ = false;  // whether a pass has proposed
  PassTimes passes_;   // those that proposed, by the number of sequences
};

}  // namespace neuronmm::model
