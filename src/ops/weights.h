#pragma once
// The weights of linear layers, MLPs and mixtures of them, as checkpoints store them: dense,
// low-rank or pivoted, in floats or rounded. The loader fills these views, and a backend makes its
// layers from them. The views do not own memory, so the checkpoint must outlive them.
//
// The same letters are used everywhere: M tokens, K in-features, r rank, N out-features. A layer
// computes Y[M,N] = X[M,K] · W[K,N], and a low-rank layer has W ~ U[K,r] · V[r,N]. Checkpoints hold
// every matrix transposed ("out x in"), so the fields end in _t.

#include <cstdint>
#include <utility>
#include <vector>

#include "base/activation.h"
#include "base/low_bit_format.h"
#include "base/tensor.h"

namespace neuronmm::ops {

// The number of columns of a row of a rounded weight that share one scale. It is a multiple of the
// lengths of all vectors and a divisor of all block-aligned ranks. Scales of 2 bytes add 1.6 % to
// a weight of 8 bits.
inline constexpr int64_t kQuantGroup = 128;

// A weight [rows, columns] as a checkpoint stores it: in a float dtype, or rounded to 8, 6 or 4
// bits (ops/low_bit.h). The shape counts values, even if several values share a byte.
struct WeightView : TensorView {
  WeightView() = default;
  // Makes a weight of floats or, with scales, a weight rounded to 8 bits. The values are then I8,
  // and the scales [rows, ceil(columns / kQuantGroup)] are of a float dtype.
  WeightView(TensorView values, TensorView row_scales = {})
      : TensorView(std::move(values)), scales(std::move(row_scales)) {}
  // Makes a weight rounded to 8, 6 or 4 bits. Its rows of stored_row_bytes(format, columns) bytes
  // begin at `stored`. Only 4 bits have groups, which are U8 [rows, ceil(columns / format.group)].
  WeightView(const LowBitFormat& how, const Shape& values, const std::byte* stored,
             TensorView row_scales, TensorView row_groups = {})
      : TensorView{how.bits == 8 ? DType::kI8 : DType::kU8, values, stored},
        scales(std::move(row_scales)),
        format(how),
        groups(std::move(row_groups)) {}

  bool quantized() const { return !scales.empty(); }
  int64_t stored_bytes() const;  // of values, scales and groups together
  TensorView scales;             // empty: the weight is not quantized
  LowBitFormat format;           // only meaningful for quantized weights
  TensorView groups;             // GroupOf4Bits; empty unless the weight has 4 bits
};

// Writes the bytes (ops/low_bit.h) of elements [first, first + count) of a quantized weight. The
// elements lie in one row.
void to_bytes(const WeightView& weight, int64_t first, int64_t count, int8_t* out);

// Writes the values of elements [first, first + count) of a weight, quantized or not, in fp32 or
// fp64. The elements of a quantized weight lie in one row.
void to_floats(const WeightView& weight, int64_t first, int64_t count, float* out);
void to_doubles(const WeightView& weight, int64_t first, int64_t count, double* out);

// The r pivots of a vector of n elements, which stand for all of them. In a layer's output, the
// other elements are linear combinations of the pivots. In a layer's input, the other elements are
// added to the pivots. Pivots are a low-rank factor that contains an identity matrix, which needs
// neither memory nor multiplications. At rank r a pivoted pair has r·r parameters less than U·V
// (PIFA, arXiv 2501.19090).
struct Pivots {
  std::vector<int32_t> index = {};  // [r], 0 < r < n, ascending
  // An input has map_t [r, n - r], and t = x[index] + map_t · x[others]. An output has
  // map_t [n - r, r], and y[index] = z, y[others] = map_t · z. `others` are in ascending order.
  WeightView map_t = {};

  bool empty() const { return index.empty(); }
  int64_t rank() const { return std::ssize(index); }
  int64_t features() const { return empty() ? 0 : rank() + map_t.size() / rank(); }  // n
};
// Returns the indices below n that are not pivots, ascending.
std::vector<int32_t> non_pivots(const Pivots& pivots);

// The weight of one linear layer in one of three forms. A dense layer has w_t, a low-rank layer has
// u_t and v_t, and a pivoted layer has a narrower w_t and either `in` or `out`.
struct LinearWeight {
  // [N, K] if dense, [N, r] with `in`, [r, K] with `out`, and empty if low-rank.
  WeightView w_t = {};
  // The factor that is applied first, [r, K]; empty unless low-rank. The reference checkpoints name
  // it `v_proj.weight`.
  WeightView u_t = {};
  // The factor that is applied second, [N, r]; empty unless low-rank. The reference checkpoints
  // name it `u_proj.weight`.
  WeightView v_t = {};
  TensorView bias = {};      // [N]; may be empty
  Pivots in = {}, out = {};  // only together with w_t, and at most one of them
  // Asks a backend that rounds activations for quantized weights to round this layer's input twice:
  // first the input, then what the first rounding left. Only dense weights without pivots may set
  // it.
  bool round_input_twice = false;

  bool low_rank() const { return !u_t.empty(); }
  bool pivoted() const { return !in.empty() || !out.empty(); }
  int64_t in_features() const {
    return low_rank() ? u_t.columns() : in.empty() ? w_t.columns() : in.features();
  }
  int64_t out_features() const {
    return low_rank() ? v_t.rows() : out.empty() ? w_t.rows() : out.features();
  }
  // Returns the rank r, or 0 if the layer is dense.
  int64_t rank() const { return low_rank() ? u_t.rows() : in.empty() ? out.rank() : in.rank(); }
  bool quantized() const { return w_t.quantized() || u_t.quantized() || v_t.quantized(); }
  int64_t parameters() const;    // without the indices of pivots, one 32-bit number per rank
  int64_t stored_bytes() const;  // of weights, scales, groups and the bias
};

// The weights of a gated MLP, Y = down(gated(gate(T), up(T))), see base/activation.h. T is X or, if
// `in` is not empty, the narrower input of the pivots that gate and up share. `in` is empty if gate
// or up have pivots of their own.
struct MlpWeight {
  LinearWeight gate, up, down;
  Pivots in = {};
  Activation activation = Activation::kSilu;
  SwigluClamp clamp = {};  // only meaningful for kClampedSwiglu

  int64_t in_features() const { return in.empty() ? gate.in_features() : in.features(); }
  int64_t neurons() const { return gate.out_features(); }
};

// The weights of a mixture of E experts, Y = sum of w_e · MLP_e(X) over the experts e that the
// router chooses for a token (ops/mixture.h). Experts may have different widths, and any form.
//
// Experts may share bases. They then read Z = input(X) instead of X, and Y is output of their sum.
struct MixtureWeight {
  // [E, H], always in floats. Its bias [E] may be empty.
  LinearWeight router = {};
  // The number of experts that a token chooses, at least 1 and at most E.
  int64_t active = 0;
  // True if the weights w_e of a token's experts add up to 1. Otherwise they are shares of a
  // softmax over all experts.
  bool divided = true;
  // The experts that are computed here. Element i is expert first_expert + i. Experts that a token
  // chooses but that are not here add nothing; another process has them.
  std::vector<MlpWeight> experts = {};
  int64_t first_expert = 0;
  // The shared bases [r, H] and [H, r'], without a bias. Empty: there is none.
  LinearWeight input = {}, output = {};

  int64_t in_features() const { return router.in_features(); }
  // Return the widths of what an expert reads and returns.
  int64_t expert_in() const { return input.w_t.empty() ? in_features() : input.out_features(); }
  int64_t expert_out() const { return output.w_t.empty() ? in_features() : output.in_features(); }
  int64_t count() const { return router.out_features(); }  // E
};

}  // namespace neuronmm::ops
