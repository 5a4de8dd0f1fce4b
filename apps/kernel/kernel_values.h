#pragma once
// Computes a kernel on random inputs and compares its values with an fp64 computation that bounds
// the difference (`neuronmm simulate --values`).

#include "base/result.h"
#include "kernel/kernel_settings.h"

namespace neuronmm::apps {

// The errors of the compared elements. All errors are absolute.
struct ValueReport {
  int64_t rows = 0;    // Compared rows of the output; spread evenly if not all are compared.
  double seconds = 0;  // The time of the interpretation.
  // The largest error, and the bound that the fp64 computation gives for this element.
  double largest_error = 0, bound_there = 0;
  // The largest error of an element, divided by the element's bound. Above 1, the kernel is wrong.
  double worst_share = 0;
  // The root mean square of the errors, and of the exact values.
  double rms_error = 0, rms = 0;
  double expected_rms_error = 0;  // The rms_error of independent roundings.
};

// Fails if the kernel has more than 2^38 FLOPs, which would take minutes, or operands of more than
// 2^28 elements. Both functions take the settings of all cores (settings_of_all_cores()).
Status check_values_size(const KernelSettings& settings);
// Computes the kernel and compares its values. Fails where check_values_size() fails, and if the
// program cannot be interpreted.
Result<ValueReport> compare_values(const KernelSettings& settings);

}  // namespace neuronmm::apps
