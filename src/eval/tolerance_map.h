#pragma once
// The reference system's --tol-map: how far logits may be off, by how likely their tokens are.

#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace neuronmm::eval {

// Over the k largest logits of the reference: |difference| <= absolute + relative * max|reference
// logit|. (Relative to the largest, not to each, as in the reference system.)
struct Tolerance {
  std::optional<int64_t> top_k;  // none: all logits, as is a k above the vocabulary
  double absolute = 0.0;
  double relative = 0.0;
};
using ToleranceMap = std::vector<Tolerance>;

// A Python literal "{None: (1e-5, 0.05), 5: (1e-5, 0.01)}" of {k: (absolute, relative)}, or the
// same as JSON: {"null": [1e-5, 0.05], "5": [1e-5, 0.01]}. Messages leave
// it to the caller to name the flag.
Result<ToleranceMap> parse_tolerance_map(std::string_view text);

}  // namespace neuronmm::eval
