#include "base/time_estimate.h"

#include <algorithm>
#include <utility>

namespace neuronmm {

void TimeEstimate::expect(std::vector<ExpectedTask> tasks) {
  if (tasks_.empty()) tasks_ = std::move(tasks);
}

void TimeEstimate::begin(std::string_view label, double done_before) {
  done_before_ = done_before;
  current_ = SIZE_MAX;
  for (size_t i = next_; i < tasks_.size(); ++i) {
    if (tasks_[i].label != label) continue;
    current_ = i;
    next_ = i + 1;
    return;
  }
}

// Returns the time of the current task from its beginning to its end, as if one run did all of it.
// The pace of this run decides, or that of earlier tasks if nothing is done yet.
std::optional<double> TimeEstimate::whole_task(double seconds, double done) const {
  const double of_this_run = done - done_before_;
  if (of_this_run > 0.0) return seconds / of_this_run;
  if (current_ < tasks_.size() && finished_share_ > 0.0) {
    return share_of_current() * finished_seconds_ / finished_share_;
  }
  return std::nullopt;
}

void TimeEstimate::end(double seconds, double done) {
  if (current_ < tasks_.size() && done > done_before_) {
    finished_seconds_ += *whole_task(seconds, done);
    finished_share_ += share_of_current();
  }
  current_ = SIZE_MAX;
}

std::optional<double> TimeEstimate::seconds_left(double seconds, double done) const {
  const auto whole = whole_task(seconds, done);
  if (!whole) return std::nullopt;
  const double here =
      done > done_before_ ? *whole * (1.0 - done) : std::max(0.0, *whole * (1.0 - done) - seconds);
  double later = 0.0;
  for (size_t i = next_; i < tasks_.size(); ++i) later += tasks_[i].share;
  if (later == 0.0) return here;
  const double share = finished_share_ + share_of_current();
  if (share == 0.0) return std::nullopt;  // no expected task has begun
  const double known = finished_seconds_ + (share_of_current() > 0.0 ? *whole : 0.0);
  return here + later * known / share;
}

}  // namespace neuronmm
