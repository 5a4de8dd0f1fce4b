#include "serve/grammar/budget.h"

#include <algorithm>

namespace neuronmm::grammar {
namespace {

constexpr int64_t kStepsBetweenChecks = 65'536;  // about 1 ms. Assumed: often enough

}  // namespace

void Budget::check() {
  if (!ok()) return;
  next_check_ = std::min(steps_ + kStepsBetweenChecks, limits_.steps);
  if (steps_ > limits_.steps || bytes_ > limits_.bytes) {
    state_ = State::kExceeded;
    exceeds_bytes_ = bytes_ > limits_.bytes;
    double within = 0.0;  // the share of the open part within the part
    for (const Part* part = innermost_; part != nullptr; part = part->outer_) {
      keep_if_largest(*part, part->own_share() - within);
      within = share() - part->begin_;
    }
  } else if (is_cancelled_ && is_cancelled_()) {
    state_ = State::kCancelled;
  }
}

void Budget::keep_if_largest(const Part& part, double share) {
  if (share <= largest_share_) return;
  largest_share_ = share;
  largest_name_ = part.name_();
}

Error Budget::error() const {
  if (cancelled()) return Error{"the compilation was cancelled", Error::Kind::kInterrupted};
  const std::string limit = exceeds_bytes_
                                ? fmt::format("{} MiB of memory", limits_.bytes >> 20)
                                : fmt::format("{} million steps", limits_.steps / 1'000'000);
  return fail(
      "{}{}this is too large: the automaton of the request takes more than {} to compile, most of "
      "it here. Use smaller counts, fewer alternatives or a simpler pattern",
      largest_name_, largest_name_.empty() ? "" : ": ", limit);
}

Budget::Part::Part(Budget& budget, Name name)
    : budget_(budget),
      name_(std::move(name)),
      outer_(std::exchange(budget.innermost_, this)),
      begin_(budget.share()) {}

Budget::Part::~Part() {
  budget_.innermost_ = outer_;
  if (outer_ != nullptr) outer_->inner_ += budget_.share() - begin_;
  if (budget_.ok()) budget_.keep_if_largest(*this, own_share());
}

double Budget::Part::own_share() const { return budget_.share() - begin_ - inner_; }

}  // namespace neuronmm::grammar
