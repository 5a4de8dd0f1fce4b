#include "trainium/simulator/counter.h"

#include <algorithm>

namespace neuronmm::simulator {

namespace {

void append_step(std::vector<Counter::Step>& steps, double ns, double value) {
  if (steps.back().ns == ns) {
    steps.back().value = value;
  } else if (steps.back().value != value) {
    steps.push_back({ns, value});
  }
}

}  // namespace

void Counter::add(double begin, double end, double amount) {
  if (!(end > begin) || begin < 0) return;
  means_.add(0, begin, end, amount);
  end_ = std::max(end_, end);
  if (++intervals_ > kMostIntervals) {
    changes_ = {};
    return;
  }
  changes_.push_back({begin, amount});
  changes_.push_back({end, -amount});
}

std::vector<Counter::Step> Counter::steps() const { return exact() ? exact_steps() : mean_steps(); }

// All changes of one time are one step, because what ends makes room for what begins then.
std::vector<Counter::Step> Counter::exact_steps() const {
  std::vector<Step> sorted = changes_;
  std::ranges::sort(sorted, {}, &Step::ns);
  std::vector<Step> steps = {{}};
  double value = 0;
  for (size_t i = 0; i < sorted.size();) {
    const double now = sorted[i].ns;
    while (i < sorted.size() && sorted[i].ns == now) value += sorted[i++].value;
    append_step(steps, now, value);
  }
  return steps;
}

std::vector<Counter::Step> Counter::mean_steps() const {
  std::vector<Step> steps = {{}};
  for (size_t bin = 0; static_cast<double>(bin) * means_.bin_ns() < end_; ++bin) {
    append_step(steps, static_cast<double>(bin) * means_.bin_ns(), means_.share(0, bin));
  }
  append_step(steps, end_, 0);
  return steps;
}

double Counter::most() const {
  double most = 0;
  for (const Step& step : steps()) most = std::max(most, step.value);
  return most;
}

std::vector<double> largest_values(const std::vector<Counter::Step>& steps, double length,
                                   size_t count) {
  std::vector<double> largest(count);
  for (size_t i = 0; i < steps.size(); ++i) {
    const double end = i + 1 < steps.size() ? steps[i + 1].ns : length * static_cast<double>(count);
    for (auto at = static_cast<size_t>(steps[i].ns / length); at < count; ++at) {
      if (static_cast<double>(at) * length >= end) break;
      largest[at] = std::max(largest[at], steps[i].value);
    }
  }
  return largest;
}

}  // namespace neuronmm::simulator
