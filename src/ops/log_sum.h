#pragma once
// The logarithm of the sum of a row's exponentials, which turns logits into probabilities. The sum
// is computed block by block, so that it has the same bits if one process has the whole row or if
// several processes have some of its blocks each. Token log-probabilities and tensor parallelism
// use it.

#include <cstdint>
#include <span>
#include <vector>

namespace neuronmm::ops {

// Returns the number of values per block, a multiple of 32 (the panels of packed weights). A row of
// `width` values has at most 128 blocks.
int64_t log_sum_block(int64_t width);

// Returns the largest value, or any of the values if one of them is NaN.
float largest_of(std::span<const float> values);

bool all_finite(std::span<const float> values);

// The sum of one block's exponentials, relative to the block's largest value.
struct ExponentialSum {
  float largest;
  double sum;  // of exp(value - largest)
};
// Returns one sum for each block of `block` values. The last block may be shorter.
std::vector<ExponentialSum> exponential_sums(std::span<const float> blocks, int64_t block);

// The logarithm of a sum of exponentials, log Σ exp(value) = largest + log. The two parts stay
// separate so that large logits lose no digits.
struct LogSum {
  double largest = 0.0;
  double log = 0.0;  // log Σ exp(value - largest)
  double log_probability(float logit) const { return double{logit} - largest - log; }
};
// Returns the log sum of one row, given the sums of all its blocks in order or the row itself.
// Exponentials are in fp32 with a relative error of 2^-23, and are added in fp64. The
// result is off by at most 2^-23, which is less than the rounding of the logits. The result is NaN
// if a value is NaN or the largest value is infinite.
LogSum log_sum(std::span<const ExponentialSum> blocks);
LogSum log_sum(std::span<const float> row);

}  // namespace neuronmm::ops
