#pragma once
// A quantity over simulated time, such as the bytes of SBUF in use. A timeline (timeline.h) has
// some of them, for the trace for Perfetto and for the charts of a report. Nothing here can fail.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "trainium/simulator/utilization.h"

namespace neuronmm::simulator {

class Counter {
 public:
  // Intervals whose times are kept. Assumed: a chart shows no more, and the times take 3 MB. Of a
  // counter with more intervals, only the mean of each bin of time is known (utilization.h).
  static constexpr size_t kMostIntervals = 100'000;

  // The quantity has the unit `unit`, for example "bytes per partition", and is normally at most
  // `capacity`.
  Counter(std::string name, std::string unit, double capacity)
      : name_(std::move(name)), unit_(std::move(unit)), capacity_(capacity) {}

  // Counts `amount` from `begin` to `end`, in ns. The intervals may come in any order. An interval
  // without a length, or one that begins before 0, does not count.
  void add(double begin, double end, double amount);

  const std::string& name() const { return name_; }
  const std::string& unit() const { return unit_; }
  double capacity() const { return capacity_; }
  // Returns whether steps() are the quantity itself and not its mean in each bin.
  bool exact() const { return intervals_ <= kMostIntervals; }

  struct Step {
    double ns = 0, value = 0;  // The value holds from this time to the next step's.
  };
  // Returns the quantity over time. The first step is at time 0, and values of neighbours differ.
  std::vector<Step> steps() const;
  double most() const;  // The largest value of all steps.

 private:
  std::vector<Step> exact_steps() const;
  std::vector<Step> mean_steps() const;

  std::string name_, unit_;
  double capacity_;
  size_t intervals_ = 0;
  // The change at each begin and each end. Empty if there are too many.
  std::vector<Step> changes_;
  Utilization means_;  // Has one track.
  double end_ = 0;
};

// Returns the largest value of each of `count` stretches of time, which begin at 0 and are `length`
// ns long. `steps` are those of a counter.
std::vector<double> largest_values(const std::vector<Counter::Step>& steps, double length,
                                   size_t count);

}  // namespace neuronmm::simulator
