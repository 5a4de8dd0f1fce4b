#pragma once
// Computes a kernel on random inputs and compares its values with an fp64 computation that bounds
// the difference (`neuronmm simulate --values`).

#include "base/result.h"
#include "kernel/kernel_settings.h"

namespace neuronmm::apps {

struct ValueReport {
  int64_t rows = 0;    // Compared rows of the output; spread evenly if not all are compared.
  double seconds = 0;  // The time of the interpretation.
  double largest_error = 0, bound_there = 0;
  // The largest share of its bound that an element's error takes; above 1, the kernel is wrong.
  double worst_share = 0;
  double rms_error = 0, rms = 0;
  double expected_rms_error = 0;  // The error if roundings are independent.
};

// Refuses shapes that would take minutes.
Status check_values_size(const KernelSettings& settings);
Result<ValueReport> compare_values(const KernelSettings& settings);

}  // namespace neuronmm::apps
