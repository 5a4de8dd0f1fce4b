#pragma once
// The logarithm of the sum of a row's exponentials, which makes logits probabilities: the same bits
// whether one place has the whole row or several have some of its blocks.

#include <cstdint>
#include <span>
#include <vector>

namespace neuronmm::ops {

// A row is cut into at most 128 blocks of this many values: whole panels of 32.
int64_t log_sum_block(int64_t width);

// The largest value. Where there is NaN it may be any of them.
float largest_of(std::span<const float> values);

bool all_finite(std::span<const float> values);

// Of one block: the sum of exp(value - largest).
struct ExponentialSum {
  float largest;
  double sum;
};
std::vector<ExponentialSum> exponential_sums(std::span<const float> blocks, int64_t block);

// In two parts, so that huge logits lose nothing.
struct LogSum {
  double largest = 0.0;
  double log = 0.0;  // of the sum of exp(value - largest)
  double log_probability(float logit) const { return double{logit} - largest - log; }
};
// Added in fp64, block after block, from exponentials in fp32, whose relative errors of 2^-23
// change the result by at most that: less than the rounding of the logits themselves. NaN where any
// value is NaN, and where the largest is infinite.
LogSum log_sum(std::span<const ExponentialSum> blocks);
LogSum log_sum(std::span<const float> row);

}  // namespace neuronmm::ops
