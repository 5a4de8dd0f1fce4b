#pragma once
// Which attention heads a process computes. They are contiguous; a kv head that several processes
// need is in each of them. Where p divides neither, shares differ by one unit: 9 heads over 4
// processes are 3 + 2 + 2 + 2.

#include "base/result.h"
#include "ops/backend.h"
#include "tensor_parallel/slices.h"

namespace neuronmm::tensor_parallel {

// Of `whole`. Where weights are rounded, heads go in units whose columns are whole groups of 128:
// two heads of 64.
Share heads_of(const ops::AttentionShape& whole, bool quantized, int process, int processes);
Share kv_heads_of(const ops::AttentionShape& whole, const Share& heads);
// The heads that one process computes, as the shape of its own attention.
struct HeadsHere {
  ops::AttentionShape shape;
  // Only if the heads do not divide by their kv heads: `group` heads of the model share a kv head,
  // and `skipped` of the first kv head's are not here, so that head h reads kv head (h + skipped) /
  // group. 0: head h reads the kv head that `shape` says.
  int64_t group = 0, skipped = 0;
};
HeadsHere heads_here(const ops::AttentionShape& whole, const Share& heads);

// An error if there is no head for some process: it says how many processes there may be.
Status check_heads(const ops::AttentionShape& whole, bool quantized, int processes);

}  // namespace neuronmm::tensor_parallel
