#pragma once
// The token constraint of one answer that must follow a grammar. The engine asks it before every
// token which tokens are allowed (model/token_constraint.h). All answers of a grammar share the
// masks in TokenMasks.

#include <memory>
#include <string>

#include "model/token_constraint.h"
#include "serve/grammar/token_masks.h"

namespace neuronmm::grammar {

class Matcher : public model::TokenConstraint {
 public:
  explicit Matcher(std::shared_ptr<TokenMasks> masks)
      : masks_(std::move(masks)), answer_(masks_->start()) {}

  void allowed_tokens(std::span<uint64_t> allowed) override;
  void advance(text::TokenId token) override;
  bool must_end() const override;

  // Returns whether the answer may end here.
  bool is_complete() const { return masks_->is_complete(answer_, text_); }

 private:
  std::shared_ptr<TokenMasks> masks_;
  mutable TokenMasks::AnswerState
      answer_;             // updated, even by const functions, after states are forgotten
  std::string text_;       // the answer so far
  UniqueStrings strings_;  // the strings in text_, if the grammar has unique strings
  bool ended_ = false;     // whether a stop token came
};

}  // namespace neuronmm::grammar
