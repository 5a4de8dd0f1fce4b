#pragma once
// Estimates the cost of an operation that no tile program describes: attention, norms, RoPE,
// residuals, the projections around them, and the gathers of MLPs with pivots. The simulated
// backend (backend.h) uses it.
//
//   seconds = max(FLOPs / Tensor rate, bytes / HBM rate, elements / Vector rate,
//                 elements / Scalar rate) + overhead
//
//   - Tensor rate: 2·128·128·clock, times the share of its cycles that published kernels sustain.
//   - HBM rate: the lesser of the core's share of HBM and the rate of its DMA engines.
//   - Vector rate: 128 lanes with an element per lane and cycle; the same for Scalar.
//   - Overhead: every operation is a kernel of its own. Its operands come from HBM and its result
//     goes back to HBM (NKI takes and returns tensors in HBM, documented). The start and the
//     completion of a DMA are therefore paid twice.
//
// The rates and latencies are the device's; device_spec.h has their sources. Assumed: the four
// engines overlap perfectly within an operation, operations do not overlap, and activations,
// weights and the KV cache are bf16. The maximum is a lower bound of that part of the time.

#include <cstdint>

#include "ops/backend.h"
#include "trainium/simulator/device_spec.h"

namespace neuronmm::device {

// The work of an operation, by resource.
struct Work {
  double flops = 0;            // FLOPs of the Tensor engine.
  double hbm_bytes = 0;        // Operands read and results written, each once.
  double vector_elements = 0;  // Elements that pass through the Vector engine, times passes.
  double scalar_elements = 0;  // Exponentials.

  Work& operator+=(const Work& other);
};
double roofline_seconds(const simulator::DeviceSpec& device, const Work& work);

// Returns the work of Y[M,N] = X[M,K] · W[K,N] (+ bias).
Work linear_work(int64_t M, int64_t K, int64_t N, bool bias);

// Returns the work of y = x / sqrt(mean(x^2) + eps) * weight on M rows: squares with their sums,
// the scaling by the row's factor, and the scaling by the weight.
Work rms_norm_work(int64_t M, int64_t columns);

// Returns the work of RoPE: two products and a sum per element. The sines and cosines come from a
// table in HBM.
Work rope_work(int64_t M, int64_t columns, int64_t head_dim);

// Returns the work of attention for M new tokens of one sequence after `first` others. The Tensor
// engine computes the scores and their products with V. Vector computes the maximum, the sum and
// the scaling of the softmax, and Scalar its exponentials. K and V of all visible positions are
// read once; those of the new tokens are written.
Work attention_work(const ops::AttentionShape& shape, int64_t M, int64_t first);

// Returns the work of reordering the columns of M rows. The kernels expect pivots first in X, and
// the residual expects Y in the model's order. Assumed: one pass of the Vector engine.
Work gather_work(int64_t M, int64_t columns);

// Returns the work of y += x.
Work add_work(int64_t M, int64_t columns);

}  // namespace neuronmm::device
