#pragma once
// Means with 95 % intervals: how far a mean would move on other items or on another text of the
// same kind. Evaluation and compression use them for every mean that they report.

#include <cstdint>
#include <span>

namespace neuronmm::eval {

// Half the width of a normal distribution's 95 % interval, in standard deviations.
inline constexpr double kInterval = 1.96;
// Returns the same for Student's t, for a mean of `samples` samples whose spread is itself an
// estimate. The factor falls from 12.7 for two samples towards 1.96. It is NaN for a single sample.
double interval_factor(int64_t samples);

// A mean and its uncertainty.
struct Estimate {
  double value = 0.0;
  double standard_error = 0.0;  // NaN for a single sample
  int64_t samples = 0;

  // Returns half the width of the 95 % interval, which is value +- half_interval().
  double half_interval() const { return interval_factor(samples) * standard_error; }
  double low() const { return value - half_interval(); }
  double high() const { return value + half_interval(); }
};

// The sum of a quantity over the scored tokens of one window of text.
struct WindowSum {
  double sum = 0.0;
  int64_t tokens = 0;
};

// Returns the mean per token; `windows` must not be empty. Neighbouring tokens are not independent,
// because passages that are hard for a model last for many tokens. The samples are therefore the
// windows. With W windows, and sums s_i over n_i tokens,
//   mean = sum of s_i / sum of n_i
//   standard error^2 = W / (W - 1) * sum of (s_i - mean n_i)^2 / (sum of n_i)^2.
// For windows of equal length this is the standard error of the mean of their means.
Estimate mean_over_windows(std::span<const WindowSum> windows);

}  // namespace neuronmm::eval
