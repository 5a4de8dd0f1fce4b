#pragma once
// Parses the reference system's --tol-map, which says how far logits may differ, depending on how
// likely their tokens are. The accuracy check uses it.

#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace neuronmm::eval {

// A tolerance over the k largest logits of the reference: |difference| <= absolute + relative *
// max|reference logit|. As in the reference system, `relative` refers to the largest logit, not to
// each logit.
struct Tolerance {
  std::optional<int64_t> top_k;  // all logits if empty or larger than the vocabulary
  double absolute = 0.0;
  double relative = 0.0;
};
using ToleranceMap = std::vector<Tolerance>;

// Parses a Python literal "{None: (1e-5, 0.05), 5: (1e-5, 0.01)}" of {k: (absolute, relative)}, or
// the same as JSON: {"null": [1e-5, 0.05], "5": [1e-5, 0.01]}. Messages do not name the flag; the
// caller does.
Result<ToleranceMap> parse_tolerance_map(std::string_view text);

}  // namespace neuronmm::eval
