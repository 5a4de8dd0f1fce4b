#pragma once
// What a kernel computes on random inputs, next to the same in fp64 with a bound on the difference.

#include "base/result.h"
#include "kernel/kernel_settings.h"

namespace neuronmm::apps {

struct ValueReport {
  int64_t rows = 0;    // of the output, compared; spread evenly when they are not all
  double seconds = 0;  // of the interpretation
  double largest_error = 0, bound_there = 0;
  double worst_share = 0;  // of its bound, of any element: above 1, something is wrong
  double rms_error = 0, rms = 0;
  double expected_rms_error = 0;  // if roundings are independent
};

// Refuses shapes that would take minutes.
Status check_values_size(const KernelSettings& settings);
Result<ValueReport> compare_values(const KernelSettings& settings);

}  // namespace neuronmm::apps
