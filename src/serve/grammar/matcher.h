#pragma once
// The token constraint of one answer that must follow a grammar. The engine asks it before every
// token which tokens are allowed (model/token_constraint.h). All answers of a grammar share the
// masks in TokenMasks.
//
// The engine computes all answers together and waits for the masks of each. An answer therefore has
// a credit of work, which grows by a fixed amount with every token. If the credit is used up, masks
// lack tokens for a while (see TokenVocabulary::allow).

#include <memory>
#include <span>
#include <string_view>

#include "model/token_constraint.h"
#include "serve/grammar/token_masks.h"

namespace neuronmm::grammar {

class Matcher : public model::TokenConstraint {
 public:
  // The credit that each token brings, and the largest credit, in units of
  // TokenVocabulary::usual_work(). Assumed: few masks take more than usual.
  static constexpr int64_t kCreditPerToken = 1, kMostCredit = 8;

  explicit Matcher(std::shared_ptr<TokenMasks> masks)
      : masks_(std::move(masks)),
        answer_(masks_->start()),
        credit_(kMostCredit * masks_->vocabulary().usual_work()) {}

  void allowed_tokens(std::span<uint64_t> allowed) override;
  void advance(text::TokenId token) override;
  bool must_end() const override;
  std::unique_ptr<model::TokenConstraint> clone() const override {
    return std::make_unique<Matcher>(*this);
  }

  // Moves past a text instead of a token. Returns false if the grammar does not allow it; the
  // object must not be used then.
  bool advance_text(std::string_view text);

  // Returns whether the answer may end here.
  bool is_complete() const { return masks_->is_complete(answer_); }

 private:
  std::shared_ptr<TokenMasks> masks_;
  TokenMasks::AnswerState answer_;
  UniqueStrings strings_;  // the strings in the answer, if the grammar has unique strings
  int64_t credit_;         // in the unit of Automaton::work()
  bool ended_ = false;     // whether a stop token came, or no token can come
};

}  // namespace neuronmm::grammar
