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
// The heads and their kv heads as the process's own attention.
ops::AttentionShape shape_of(const ops::AttentionShape& whole, const Share& heads);

// An error if there is no head for some process: it says how many processes there may be.
Status check_heads(const ops::AttentionShape& whole, bool quantized, int processes);

// attention() of `backend`, also of heads that do not divide by their kv heads: then with the
// missing ones as zeros.
void attend(const ops::Backend& backend, const ops::AttentionShape& shape, int64_t layer,
            ConstMatrixView q, ConstMatrixView k, ConstMatrixView v, ops::Batch batch,
            MutableMatrixView y);

}  // namespace neuronmm::tensor_parallel
