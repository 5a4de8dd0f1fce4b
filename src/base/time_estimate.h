#pragma once
// Estimates how long a command still takes that consists of several tasks, such as calibrating,
// narrowing and writing. A command says beforehand which share of its time each task takes. The
// shares may be rough: they only decide about tasks that have not begun, and the time of finished
// tasks says what one unit of share takes. Progress uses this class.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace neuronmm {

// A task that a command expects. Only the ratio between shares matters.
struct ExpectedTask {
  std::string label;
  double share = 1.0;
};

// The remaining time of a command. Times are in seconds, and `done` is the share of the current
// task that is done, between 0 and 1.
class TimeEstimate {
 public:
  // Declares the tasks of the command in their order. Later calls have no effect, because a command
  // that runs inside another one is a part of its tasks.
  void expect(std::vector<ExpectedTask> tasks);
  // Returns whether tasks were declared.
  bool expects_tasks() const { return !tasks_.empty(); }

  // Begins the next task of this label. Tasks before it are not needed, and take no time. A label
  // that is not expected stands for itself.
  void begin(std::string_view label, double done_before);
  // Ends the current task, of which `done` is done after `seconds`.
  void end(double seconds, double done);
  // Returns the time until the end of the last task, or nothing if there is nothing yet to estimate
  // it from. `seconds` is the time since begin().
  std::optional<double> seconds_left(double seconds, double done) const;

 private:
  double share_of_current() const {
    return current_ < tasks_.size() ? tasks_[current_].share : 0.0;
  }
  std::optional<double> whole_task(double seconds, double done) const;

  std::vector<ExpectedTask> tasks_;
  size_t next_ = 0;            // the first task that has not begun
  size_t current_ = SIZE_MAX;  // SIZE_MAX if the current task is not an expected one
  double done_before_ = 0.0;
  // The time that finished tasks would have taken in one run, and their shares.
  double finished_seconds_ = 0.0, finished_share_ = 0.0;
};

}  // namespace neuronmm
