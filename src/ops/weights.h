#pragma once
// The weights of a linear layer, dense or low-rank, as checkpoints store them. Nobody else needs to
// know which it is.
//
// Letters, everywhere: M tokens, K in-features, r rank, N out-features; Y[M,N] = X[M,K] · W[K,N], W
// ~ U[K,r] · V[r,N]. Checkpoints hold every matrix transposed ("out x in"), so the fields end in
// _t.

#include <cstdint>
#include <utility>
#include <vector>

#include "base/low_bit_format.h"
#include "base/tensor.h"

namespace neuronmm::ops {

// Columns of a row of a rounded weight that share one scale. A multiple of all vectors' lengths and
// a divisor of all block-aligned ranks; at 128, scales of 2 bytes are 1.6 % of the weight.
inline constexpr int64_t kQuantGroup = 128;

// A weight [rows, columns] as a checkpoint stores it: of a float dtype, or rounded to 8, 6 or 4
// bits (ops/low_bit.h). The shape is that of the values, however they are stored.
struct WeightView : TensorView {
  WeightView() = default;
  // Floats; with scales bytes: I8, and scales [rows, ceil(columns / kQuantGroup)] of a float dtype.
  WeightView(TensorView values, TensorView row_scales = {})
      : TensorView(std::move(values)), scales(std::move(row_scales)) {}
  // 8, 6 or 4 bits: rows of stored_row_bytes(format, columns) bytes from `stored` on; only 4 bits
  // have groups, U8 [rows, ceil(columns / format.group)].
  WeightView(const LowBitFormat& how, const Shape& values, const std::byte* stored,
             TensorView row_scales, TensorView row_groups = {})
      : TensorView{how.bits == 8 ? DType::kI8 : DType::kU8, values, stored},
        scales(std::move(row_scales)),
        format(how),
        groups(std::move(row_groups)) {}

  bool quantized() const { return !scales.empty(); }
  int64_t stored_bytes() const;  // of values, scales and groups
  TensorView scales;
  LowBitFormat format;  // of quantized ones
  TensorView groups;
};

// The bytes of a quantized weight (ops/low_bit.h); [first, first + count) lies in one row.
void to_bytes(const WeightView& weight, int64_t first, int64_t count, int8_t* out);

// TensorView's functions of these names for weights, quantized or not; [first, first + count) lies
// in one row.
void to_floats(const WeightView& weight, int64_t first, int64_t count, float* out);
void to_doubles(const WeightView& weight, int64_t first, int64_t count, double* out);

// Some elements of a vector of n, the pivots, stand for all of them: the others are linear
// combinations of the pivots (on the way out), or are folded into them (on the way in). It is a
// low-rank factor of which an identity matrix needs neither memory nor multiplications: at rank r a
// pivoted pair has r·r parameters less than U·V (PIFA, arXiv 2501.19090).
struct Pivots {
  std::vector<int32_t> index = {};  // [r], 0 < r < n, ascending
  // On the way in [r, n - r]: t = x[index] + map_t · x[others]. On the way out [n - r, r]:
  // y[index] = z, y[others] = map_t · z. `others` are in ascending order.
  WeightView map_t = {};

  bool empty() const { return index.empty(); }
  int64_t rank() const { return std::ssize(index); }
  int64_t features() const { return empty() ? 0 : rank() + map_t.size() / rank(); }  // n
};
// The other indices below n, ascending.
std::vector<int32_t> others(const Pivots& pivots);

struct LinearWeight {
  WeightView w_t = {};  // [N, K]; empty when low-rank. With `in` [N, r], with `out` [r, K]
  WeightView u_t = {};  // [r, K]; empty when dense. Applied first (`v_proj.weight` in the reference
                        // checkpoints)
  WeightView v_t = {};  // [N, r]; empty when dense. Applied second (`u_proj.weight` there)
  TensorView bias = {};      // [N]; may be empty
  Pivots in = {}, out = {};  // of a weight with w_t; at most one of them is not empty
  // Where a backend rounds what it multiplies with quantized weights, it rounds this layer's input
  // and then what that left of it. Only of dense weights without pivots.
  bool fine_input = false;

  bool low_rank() const { return !u_t.empty(); }
  bool pivoted() const { return !in.empty() || !out.empty(); }
  int64_t in_features() const {
    return low_rank() ? u_t.columns() : in.empty() ? w_t.columns() : in.features();
  }
  int64_t out_features() const {
    return low_rank() ? v_t.rows() : out.empty() ? w_t.rows() : out.features();
  }
  // 0: dense.
  int64_t rank() const { return low_rank() ? u_t.rows() : in.empty() ? out.rank() : in.rank(); }
  bool quantized() const { return w_t.quantized() || u_t.quantized() || v_t.quantized(); }
  int64_t parameters() const;    // pivots are not counted: they are 32-bit numbers, one per rank
  int64_t stored_bytes() const;  // of weights, scales and the bias
};

// SwiGLU: Y = down(silu(gate(T)) * up(T)), T = X, or narrower with pivots that gate and up share.
// `in` is empty when gate or up have pivots of their own.
struct MlpWeight {
  LinearWeight gate, up, down;
  Pivots in = {};

  int64_t in_features() const { return in.empty() ? gate.in_features() : in.features(); }
  int64_t neurons() const { return gate.out_features(); }
};

}  // namespace neuronmm::ops
