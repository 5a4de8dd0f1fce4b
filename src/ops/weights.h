#pragma once
// The weights of a linear layer, dense or low-rank, as checkpoints store them. Nobody else needs to
// know which it is.
//
// Letters, everywhere: M tokens, K in-features, r rank, N out-features; Y[M,N] = X[M,K] · W[K,N], W
// ~ U[K,r] · V[r,N]. Checkpoints hold every matrix transposed ("out x in"), so the fields end in
// _t.

#include <utility>

#include "base/tensor.h"

namespace neuronmm::ops {

// Columns of a row of an int8 weight that share one scale. A multiple of all vectors' lengths and a
// divisor of all block-aligned ranks; at 128, scales of 2 bytes are 1.6 % of the weight.
inline constexpr int64_t kQuantGroup = 128;

// A weight [rows, columns] as a checkpoint stores it: of a float dtype, or quantized to I8 with
// scales [rows, ceil(columns / kQuantGroup)] of a float dtype: W[i, j] = scales[i, j / kQuantGroup]
// · value[i, j].
struct WeightView : TensorView {
  WeightView() = default;
  WeightView(TensorView values, TensorView group_scales = {})
      : TensorView(std::move(values)), scales(std::move(group_scales)) {}

  bool quantized() const { return !scales.empty(); }
  int64_t stored_bytes() const { return size_bytes() + (quantized() ? scales.size_bytes() : 0); }
  TensorView scales;
};

// TensorView's functions of these names for weights, quantized or not; [first, first + count) lies
// in one row.
void to_floats(const WeightView& weight, int64_t first, int64_t count, float* out);
void to_doubles(const WeightView& weight, int64_t first, int64_t count, double* out);

struct LinearWeight {
  WeightView w_t = {};  // [N, K]; empty when low-rank
  WeightView u_t = {};  // [r, K]; empty when dense. Applied first (`v_proj.weight` in the reference
                        // checkpoints)
  WeightView v_t = {};  // [N, r]; empty when dense. Applied second (`u_proj.weight` there)
  TensorView bias = {};  // [N]; may be empty

  bool low_rank() const { return !u_t.empty(); }
  int64_t in_features() const { return low_rank() ? u_t.columns() : w_t.columns(); }
  int64_t out_features() const { return low_rank() ? v_t.rows() : w_t.rows(); }
  int64_t rank() const { return low_rank() ? u_t.rows() : 0; }  // 0: dense
  bool quantized() const { return w_t.quantized() || u_t.quantized() || v_t.quantized(); }
  int64_t parameters() const {
    return (low_rank() ? u_t.size() + v_t.size() : w_t.size()) + (bias.empty() ? 0 : bias.size());
  }
};

// SwiGLU: Y = down(silu(gate(X)) * up(X)).
struct MlpWeight {
  LinearWeight gate, up, down;
};

}  // namespace neuronmm::ops
