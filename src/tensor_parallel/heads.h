#pragma once
// The division of attention heads among processes. The heads of a process are contiguous, and a
// key-value head that several processes need is computed by each of them. If the number of
// processes divides neither number of heads, the shares differ by one unit: 9 heads on 4 processes
// are divided into 3, 2, 2 and 2.

#include "base/result.h"
#include "ops/backend.h"
#include "tensor_parallel/slices.h"

namespace neuronmm::tensor_parallel {

// Returns the query heads of a process. If weights are rounded, heads are divided in units whose
// columns are whole groups of 128, for example two heads of 64.
Share heads_of(const ops::AttentionShape& whole, bool quantized, int process, int processes);
// Returns the key-value heads that a process with these query heads needs.
Share kv_heads_of(const ops::AttentionShape& whole, const Share& heads);
// The heads that one process computes, as the shape of its own attention.
struct HeadsHere {
  ops::AttentionShape shape;
  // Used only if this process's query heads are no multiple of its key-value heads. Then `group`
  // query heads of the model share a key-value head, and `skipped` of those that share the first
  // one belong to another process: query head h reads key-value head (h + skipped) / group. If
  // `group` is 0, query head h reads the key-value head that `shape` says.
  int64_t group = 0, skipped = 0;
};
HeadsHere heads_here(const ops::AttentionShape& whole, const Share& heads);

// Returns an error if some process would have no head. The error says how many processes are
// possible.
Status check_heads(const ops::AttentionShape& whole, bool quantized, int processes);

}  // namespace neuronmm::tensor_parallel
