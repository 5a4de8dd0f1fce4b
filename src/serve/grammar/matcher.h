#pragma once
// Holds one answer to a grammar.

#include <memory>
#include <string>

#include "model/token_constraint.h"
#include "serve/grammar/token_masks.h"

namespace neuronmm::grammar {

class Matcher : public model::TokenConstraint {
 public:
  explicit Matcher(std::shared_ptr<TokenMasks> masks)
      : masks_(std::move(masks)), place_(masks_->start()) {}

  void allowed_tokens(std::span<uint64_t> allowed) override;
  void advance(text::TokenId token) override;
  bool must_end() const override;

  bool is_complete() const { return masks_->is_complete(place_, text_); }

 private:
  std::shared_ptr<TokenMasks> masks_;
  mutable TokenMasks::Place place_;  // its number changes when states are forgotten
  std::string text_;
  UniqueStrings strings_;  // of text_, where the grammar asks for it
  bool ended_ = false;     // by a token
};

}  // namespace neuronmm::grammar
