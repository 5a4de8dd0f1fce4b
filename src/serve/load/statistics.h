#pragma once
// What a list of times comes to.

#include <cstdint>
#include <span>
#include <vector>

namespace neuronmm::load {

struct Summary {
  int64_t count = 0;  // of none, all else is 0
  double mean = 0.0, median = 0.0;
  double deviation = 0.0;  // divided by count, as NumPy's std
  double p90 = 0.0, p99 = 0.0;
};

// Between the two nearest of `sorted`, which is not empty, as NumPy's `linear`; percent 0..100.
double percentile(std::span<const double> sorted, double percent);

Summary summarize(std::vector<double> values);

}  // namespace neuronmm::load
