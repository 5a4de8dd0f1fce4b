#pragma once
// This file simulates our kernel for the paper's weight in pivoted form, to compare it with the
// paper's kernels for U·V. The rank and W are equal, but the pivoted form has r·(K + N - r)
// parameters instead of r·(K + N). No measurement of it is published.

#include <cstdint>
#include <map>

#include "base/result.h"

namespace neuronmm::apps {

// The result of one simulation.
struct PivotedRun {
  double milliseconds = 0, gib = 0;  // `gib` is the HBM traffic in GiB.
};
using PivotedRuns = std::map<int64_t, PivotedRun>;  // By M.

// Simulates the pivoted kernel at the paper's setting: K 8192, r 4096, N 16384, bf16 with bf16
// sums, trn1.
Result<PivotedRun> simulate_pivoted(int64_t M);

}  // namespace neuronmm::apps
