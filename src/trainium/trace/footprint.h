#pragma once
// Computes which bytes of a tensor an access touches: a range of rows and, in each row, the same
// columns. On chip a row is a partition; in HBM it is the tensor's last dimension. AccessTable
// (accesses.h) cuts tensors into cells with it. The access must lie inside the tensor, which
// check_contents() (contents.h) checks first. Nothing here checks it again, and nothing can fail.

#include <cstdint>
#include <vector>

#include "trainium/trace/header.h"

namespace neuronmm::trace {

struct Interval {
  int64_t begin = 0, end = 0;
};

struct Footprint {
  Interval rows;
  std::vector<Interval> columns;  // In bytes; ascending and disjoint.
};

// Returns the footprint of an access to a tensor of `kind`. `root` is the kind of the tensor that
// owns the memory, which differs from `kind` for a view. The tensor's first byte is byte `base` of
// a row of `root` (in HBM: of the whole root).
//
// The footprint is exact except in two cases, where it is a superset: it includes the rows between
// strided rows, and the gaps of an access with more than 64 separate runs per row.
Footprint footprint(const TensorKind& kind, const TensorKind& root, int64_t base,
                    const Pattern& pattern, int64_t offset);

}  // namespace neuronmm::trace
