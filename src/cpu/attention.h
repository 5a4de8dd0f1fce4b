#pragma once
// Causal grouped-query attention over the KV caches of a batch, on all threads. The CPU backend
// calls it once per layer.

#include "cpu/buffer.h"
#include "cpu/kernels.h"
#include "ops/backend.h"

namespace neuronmm::cpu {

// Implements ops::Backend::attention; all caches must be CpuKvCache. `scratch` is memory that calls
// reuse.
void attention(const Kernels& kernels, const ops::AttentionShape& shape, int64_t layer,
               ConstMatrixView q, ConstMatrixView k, ConstMatrixView v, ops::Batch batch,
               Buffer<float>& scratch, MutableMatrixView y);

}  // namespace neuronmm::cpu
