#pragma once
// Causal grouped-query attention over the KV caches of a batch, on all threads.

#include "cpu/buffer.h"
#include "cpu/kernels.h"
#include "ops/backend.h"

namespace neuronmm::cpu {

// See ops::Backend::attention; all caches are CpuKvCache. `scratch` is reused from call to call.
void attention(const Kernels& kernels, const ops::AttentionShape& shape, int64_t layer,
               ConstMatrixView q, ConstMatrixView k, ConstMatrixView v, ops::Batch batch,
               Buffer<float>& scratch, MutableMatrixView y);

}  // namespace neuronmm::cpu
