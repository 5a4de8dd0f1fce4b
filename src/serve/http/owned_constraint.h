#pragma once
// A token constraint that another one owns. Copying the owner copies it, too, which is what a draft
// needs to try tokens. ThinkingConstraint and StrictCallsConstraint use it.

#include <memory>
#include <utility>

#include "model/token_constraint.h"

namespace neuronmm::serve {

// A pointer to a constraint, or null. Copying it clones the constraint. A constraint that cannot be
// cloned becomes null in the copy, which then allows more than the original.
class OwnedConstraint {
 public:
  OwnedConstraint() = default;
  OwnedConstraint(std::unique_ptr<model::TokenConstraint> owned) : owned_(std::move(owned)) {}
  OwnedConstraint(const OwnedConstraint& other)
      : owned_(other.owned_ ? other.owned_->clone() : nullptr) {}
  OwnedConstraint& operator=(OwnedConstraint other) noexcept {
    owned_ = std::move(other.owned_);
    return *this;
  }
  ~OwnedConstraint() = default;

  void reset() { owned_.reset(); }
  explicit operator bool() const { return owned_ != nullptr; }
  model::TokenConstraint* operator->() const { return owned_.get(); }

 private:
  std::unique_ptr<model::TokenConstraint> owned_;
};

}  // namespace neuronmm::serve
