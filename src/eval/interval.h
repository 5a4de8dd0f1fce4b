#pragma once
// Means, and how far they would be from these on other items or another text of the same kind.

#include <cstdint>
#include <span>

namespace neuronmm::eval {

// Half of a normal distribution's 95 % interval, in standard deviations.
inline constexpr double kInterval = 1.96;
// The same of Student's t for a mean of so many samples, whose spread is an estimate itself: 12.7
// of two, 2.07 of 24, in the limit 1.96. NaN of one.
double interval_factor(int64_t samples);

struct Estimate {
  double value = 0.0;
  double standard_error = 0.0;  // NaN of a single sample
  int64_t samples = 0;

  // The 95 % interval: value +- half_interval().
  double half_interval() const { return interval_factor(samples) * standard_error; }
  double low() const { return value - half_interval(); }
  double high() const { return value + half_interval(); }
};

// What the scored tokens of one window of text add up to.
struct WindowSum {
  double sum = 0.0;
  int64_t tokens = 0;
};

// The mean per token. The tokens of a text say less than as many independent ones would: what is
// hard for a model comes in runs. So the windows are the samples. With sums s_i of n_i tokens,
//   mean = sum of s_i / sum of n_i
//   standard error^2 = W / (W - 1) * sum of (s_i - mean n_i)^2 / (sum of n_i)^2,
// which for W windows of one length is that of the mean of their means. Not empty.
Estimate mean_over_windows(std::span<const WindowSum> windows);

}  // namespace neuronmm::eval
