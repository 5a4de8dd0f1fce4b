#pragma once
// Causal grouped-query attention over the KV cache, on all threads.

#include "cpu/buffer.h"
#include "cpu/kernels.h"
#include "cpu/kv_cache.h"
#include "ops/backend.h"

namespace neuronmm::cpu {

// See ops::Backend::attention. `scratch` is reused from call to call.
void attention(const Kernels& kernels, const ops::AttentionShape& shape, int64_t layer,
               ConstMatrixView q, ConstMatrixView k, ConstMatrixView v, CpuKvCache& cache,
               Buffer<float>& scratch, MutableMatrixView y);

}  // namespace neuronmm::cpu
