#pragma once
// What an operation costs that no tile program describes: attention, norms, RoPE, residuals, the
// projections around them, and the gathers of MLPs with pivots.
//
//   seconds = max(FLOPs / Tensor rate, bytes / HBM rate, elements / Vector rate,
//                 elements / Scalar rate) + overhead
//
//   Tensor rate   2·128·128·clock, times the share of its cycles that published kernels sustain
//   HBM rate      the lesser of the core's share of HBM and what its DMA engines move
//   Vector rate   128 lanes, an element per lane and cycle; the same for Scalar
//   overhead      every operation is a kernel of its own: its operands come from HBM and its result
//                 goes back (NKI takes and returns tensors in HBM, documented), so that the start
//                 and the completion of a DMA are paid twice
//
// The rates and latencies are the device's (device_spec.h has their sources). Assumed: that the
// four engines overlap perfectly within an operation, that nothing overlaps between operations, and
// that activations, weights and the KV cache are bf16. A roofline is a lower bound of the first
// part.

#include <cstdint>

#include "ops/backend.h"
#include "trainium/simulator/device_spec.h"

namespace neuronmm::device {

struct Work {
  double flops = 0;            // on the Tensor engine
  double hbm_bytes = 0;        // operands read, results written, each once
  double vector_elements = 0;  // elements that pass through the Vector engine, times passes
  double scalar_elements = 0;  // exponentials

  Work& operator+=(const Work& other);
};
double roofline_seconds(const simulator::DeviceSpec& device, const Work& work);

// Y[M,N] = X[M,K] · W[K,N] (+ bias).
Work linear_work(int64_t M, int64_t K, int64_t N, bool bias);

// y = x / sqrt(mean(x^2) + eps) * weight of M rows: squares and their sums, then the scaling by the
// row's factor and by the weight.
Work rms_norm_work(int64_t M, int64_t columns);

// Two products and a sum for every element; the angles' sines and cosines come from a table in HBM.
Work rope_work(int64_t M, int64_t columns, int64_t head_dim);

// M new tokens of one sequence after `first` others. Scores and their products with V on the Tensor
// engine, the maximum, the sum and the scaling of the softmax on Vector, its exponentials on
// Scalar. K and V of every position in sight are read once, those of the new tokens written.
Work attention_work(const ops::AttentionShape& shape, int64_t M, int64_t first);

// The columns of M rows in another order: pivots first, as the kernels have X, or back where they
// belong, as the residual has Y. Assumed: one pass of the Vector engine.
Work gather_work(int64_t M, int64_t columns);

// y += x.
Work add_work(int64_t M, int64_t columns);

}  // namespace neuronmm::device
