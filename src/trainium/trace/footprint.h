#pragma once
// Which bytes of a tensor an access touches: a range of rows and, in each of them, the same
// columns. On chip a row is a partition; in HBM it is the tensor's last dimension.

#include <cstdint>
#include <vector>

#include "trainium/trace/header.h"

namespace neuronmm::trace {

struct Interval {
  int64_t begin = 0, end = 0;
};

struct Footprint {
  Interval rows;
  std::vector<Interval> columns;  // bytes; ascending, disjoint
};

// Of an access to a tensor of `kind` whose first byte is byte `base` of a row of `root` (in HBM: of
// all of it): `root` is the tensor that owns the memory, `kind` itself unless it is a view. Exact
// but for two cases, which give a superset: rows between strided rows, and the gaps of an access
// with more than 64 separate runs per row.
Footprint footprint(const TensorKind& kind, const TensorKind& root, int64_t base,
                    const Pattern& pattern, int64_t offset);

}  // namespace neuronmm::trace
