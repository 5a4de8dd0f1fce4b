#pragma once
// Our kernel for the paper's weight in pivoted form, beside the paper's kernels for U·V: the same
// rank and the same W, with r·(K + N - r) parameters in place of r·(K + N). Nothing is published of
// it.

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "trainium/validation/validation.h"

namespace neuronmm::apps {

struct PivotedRun {
  double milliseconds = 0, gib = 0;  // GiB over HBM
};
using PivotedRuns = std::map<int64_t, PivotedRun>;  // by M

// K 8192, r 4096, N 16384, bf16 with bf16 sums, trn1, as the paper's kernels.
Result<PivotedRun> simulate_pivoted(int64_t M);

// The averages that the paper states, those of its own charts, and ours.
std::string averages_text(const std::vector<validation::Row>& rows, const PivotedRuns& pivoted);

}  // namespace neuronmm::apps
