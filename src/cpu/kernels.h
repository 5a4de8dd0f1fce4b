#pragma once
// Declares the table of the SIMD kernels. A kernel is a single-threaded function over memory, which
// is compiled once per instruction set from the *-inl.h files. A backend takes one table when it is
// made and uses no other, so that everything it does runs on one instruction set. The callers split
// work over threads.

#include <algorithm>
#include <cstdint>

#include "base/activation.h"
#include "base/tensor.h"
#include "cpu/packed_matrix.h"
#include "cpu/packed_rows.h"

namespace neuronmm::cpu {

// The number of partial sums that a row's sum of powers is kept in: the fp32 lanes of 512 bits.
inline constexpr int64_t kSumLanes = 16;

// The sums of rows over the positions that they attended to so far.
struct AttentionSums {
  float* max;       // [rows], the largest score, before it is scaled
  float* sum;       // [rows][kSumLanes], which add up to the sum of the powers
  float* weighted;  // [rows][head_dim, padded to a multiple of kPanel], the sum of power · value
};

// Rows of queries that share one key/value head, and the positions that they attend to. The `group`
// query heads of a token that share a key/value head are neighbours. Row t is query first_row + t,
// and its token is at position first_position + (first_row + t) / group. The power of a score s is
// 2^(scale · (s - max)).
struct AttentionBlock {
  // k = head_dim, which is one block of K. Packed as bf16 for products of bf16, otherwise as fp32.
  PackedRows q;
  float scale;  // log2(e) / sqrt(head_dim), or log2(e) times the model's own scale
  // 0, or the factor a of scores that become tanh(a · score). Then scale is log2(e) times the cap.
  float cap_factor;
  // The keys and values of one layer and head (see kv_cache.h).
  const uint32_t* const* blocks;
  int64_t keys_offset, values_offset;  // in a block, in words
  int64_t key_panel, value_panel;      // the words of a panel
  // For int8: the scales of the positions of a block, in words from its start.
  int64_t key_scales_offset, value_scales_offset;
  int64_t first_row, group, first_position;
  int64_t window;      // the number of positions that a row attends to, or 0 for all
  int64_t begin, end;  // the positions to visit; begin is a multiple of kKeyBlock
  AttentionSums sums;  // the results
};

// A part of a product: some tiles of rows and some panels of columns, and of K all or some blocks.
struct ProductPart {
  int64_t first_tile = 0, tiles = 0;
  int64_t first_panel = 0, panels = 0;
  bool add_to_y = false;  // The sums begin with y instead of the bias or 0.
  // A multiple of PackedRows::k_block. Later parts add to y.
  int64_t first_k = 0;
  int64_t most_k = 0;  // of K, or 0 for all from first_k on

  int64_t end_k(int64_t k) const { return most_k == 0 ? k : std::min(k, first_k + most_k); }
};

// No instruction set has registers for a higher tile (AMX's is two tiles of 16 rows).
inline constexpr int64_t kMaxTileRows = 32;

// The dot products that one instruction computes: none, those of 4 bytes (VNNI, or SDOT of NEON),
// or also those of 2 bf16 numbers (AVX512-BF16, or BFDOT of NEON).
enum class DotProducts { kNone, kInt8, kInt8AndBf16 };

// Computes Y = A·W (+ bias) for the rows of A and the columns of W in `part`. A is packed for the
// type of W. Every element of Y is one chain of multiply-adds in the order k = 0, 1, ... Dot
// products of bf16 add pairs, and AMX adds steps of 32. The chain is the same in every tile, so
// results do not depend on M, on blocking or on threads. The bias has all columns, padded to whole
// panels.
using Multiply = void (*)(const PackedRows& a, const PackedMatrix& w, const ProductPart& part,
                          const float* bias, MutableMatrixView y);

// Replaces `count` outputs of up by activate(gate) · up.
using GatingKernel = void (*)(const float* gate, float* up, int64_t count);

// The function of gate and up of one MLP (base/activation.h).
struct Gating {
  GatingKernel kernel = nullptr;
  bool clamped = false;
  SwigluClamp clamp = {};

  // Replaces `count` outputs of up by gated(gate, up). The outputs of gate may be overwritten.
  void operator()(float* gate, float* up, int64_t count) const;
};

// The kernels of one instruction set.
struct Kernels {
  // Highway's name of the instruction set ("AVX3" is AVX-512), followed by "+int8" or "+int8+bf16"
  // for dot_products and by "+amx".
  const char* target = nullptr;
  DotProducts dot_products = DotProducts::kNone;
  // AMX computes products of bf16 rows, and of int8 rows if there are many.
  bool amx = false;
  // The largest number of rows in a register tile, for fp32, bf16 and int8 rows.
  int64_t tile_rows = 0, bf16_tile_rows = 0, int8_tile_rows = 0;
  int64_t row_unit() const { return amx ? 8 : 1; }  // see PackedRows::unit

  // Pack these columns of one tile of rows as `layout` says. rows[r][0] is the first of the
  // columns. pack_bf16_tile needs an even first column. quantize_tile needs a first column that is
  // a multiple of kQuantGroup, and a count that is one too or ends at k. It maps the largest |x| of
  // a group to 127, and a group with NaN or infinity to NaN.
  void (*pack_tile)(const PackedRows& layout, int64_t tile, const ColumnRange& columns,
                    const float* const* rows, float* packed) = nullptr;
  void (*pack_bf16_tile)(const PackedRows& layout, int64_t tile, const ColumnRange& columns,
                         const float* const* rows, int32_t* packed) = nullptr;
  void (*quantize_tile)(const PackedRows& layout, int64_t tile, const ColumnRange& columns,
                        const float* const* rows, int32_t* packed) = nullptr;
  // Computes rest[i], which is x[i] less the multiple of its group's scale to which quantize_tile
  // rounds it. The rest is NaN where that is NaN.
  void (*quantization_rest)(const float* x, int64_t count, float* rest) = nullptr;

  Multiply multiply_floats = nullptr;  // fp32 and bf16
  Multiply multiply_int8 = nullptr;
  Multiply multiply_int6 = nullptr;
  Multiply multiply_int4 = nullptr;
  Multiply multiply_coded = nullptr;
  // Calls the function for the type of W.
  void multiply(const PackedRows& a, const PackedMatrix& w, const ProductPart& part,
                const float* bias, MutableMatrixView y) const;

  // Attention with keys and values of fp32, bf16 or int8. With products of bf16, queries are bf16
  // for the last two.
  void (*attend_fp32)(const AttentionBlock& block) = nullptr;
  void (*attend_bf16)(const AttentionBlock& block) = nullptr;
  void (*attend_int8)(const AttentionBlock& block) = nullptr;
  // Adds the sums of later positions to those of earlier ones.
  void (*add_attention)(int64_t rows, int64_t features, float scale, const AttentionSums& from,
                        const AttentionSums& to) = nullptr;
  // Divides the first `count` weighted values of one row by its sum.
  void (*finish_attention)(const float* sum, const float* weighted, int64_t count,
                           float* y) = nullptr;

  GatingKernel silu_multiply = nullptr;  // up = silu(gate) · up
  GatingKernel gelu_multiply = nullptr;  // up = gelu_tanh(gate) · up
  // Returns the function of an activation. Clamped SwiGLU is made of silu.
  Gating gating(Activation activation, const SwigluClamp& clamp) const {
    return {activation == Activation::kGeluTanh ? gelu_multiply : silu_multiply,
            activation == Activation::kClampedSwiglu, clamp};
  }
  void (*add)(const float* x, float* y, int64_t count) = nullptr;  // y += x
  void (*scale)(float factor, float* y, int64_t count) = nullptr;  // y *= factor
  void (*soft_cap)(float cap, float* y, int64_t count) = nullptr;  // y = cap · tanh(y / cap)
  void (*rms_norm)(const float* x, const float* weight, float eps, float* y,
                   int64_t count) = nullptr;
  // (low, high) <- (low · cos - high · sin, high · cos + low · sin)
  void (*rotate)(const float* cos, const float* sin, float* low, float* high,
                 int64_t count) = nullptr;
};

// The instructions of the CPU that kernels may use.
struct KernelChoice {
  // Products of bf16 round the activations that meet bf16 weights, so they are off by default.
  DotProducts most_dot_products = DotProducts::kInt8;
  bool amx = true;  // changes no result of int8 products
};

// Returns what programs use unless a flag says otherwise. With AMX these are products of bf16:
// measured on SmolLM2 in bf16, they make prefill 2.4 times as fast as fp32 activations do
// (docs/measurements/cpu_speed.md). The divergence from the fp32 model grows from .00006 to .00017
// nats per token. On other CPUs they gain less or nothing, and are off.
KernelChoice default_choice();

// Returns the table of the best instruction set that hwy::SupportedTargets() reports now.
const Kernels& best_kernels(const KernelChoice& choice = {});

}  // namespace neuronmm::cpu
