#pragma once
// The SIMD kernels: single-threaded functions over memory, compiled once per instruction set from
// the *-inl.h files. A backend takes one table when it is made and uses no other, so that
// everything it does runs on one instruction set. Splitting work over threads is the callers' part.

#include <cstdint>

#include "base/tensor.h"
#include "cpu/packed_matrix.h"
#include "cpu/packed_rows.h"

namespace neuronmm::cpu {

// Rows of queries that share one key/value head, and the positions that they look at. Row t is
// query first_row + t; it belongs to the token at position first_position + (first_row + t) /
// group, since the `group` query heads of one token that share a key/value head are neighbours.
struct AttentionBlock {
  PackedRows q;  // already divided by sqrt(head_dim); k = k_block = head_dim
  // Keys and values of one layer and head (see kv_cache.h).
  const uint32_t* const* blocks;
  bool is_bf16;
  int64_t keys_offset, values_offset;  // in a block, in words
  int64_t first_row, group, first_position;
  int64_t window;      // 0: none
  int64_t begin, end;  // positions to visit; begin is a multiple of kKeyBlock
  // Results: the largest score of each row, and relative to it the sum of exp(score - max) and the
  // sum of exp(score - max) · value, rows of head_dim padded to a multiple of kPanel.
  float* max;
  float* sum;
  float* weighted;
};

// A part of a product: some tiles of rows, some panels of columns.
struct ProductPart {
  int64_t first_tile = 0, tiles = 0;
  int64_t first_panel = 0, panels = 0;
  bool add_to_y = false;  // the sums begin with what y holds, not with the bias or 0
};

// No instruction set has registers for a higher tile (AMX's is two tiles of 16 rows).
inline constexpr int64_t kMaxTileRows = 32;

// Which dot products are one instruction: none, those of 4 bytes (VNNI; NEON's SDOT), or those of 2
// bf16 too (AVX512-BF16; NEON's BFDOT).
enum class DotProducts { kNone, kInt8, kInt8AndBf16 };

struct Kernels {
  // Highway's name of the instruction set, "AVX3" is AVX-512; with "+int8" or "+int8+bf16" for what
  // dot_products says, and "+amx".
  const char* target;
  DotProducts dot_products;
  bool amx;  // products of int8 rows, if there are many, and of bf16 rows by tile registers
  // The most rows of a register tile: of fp32, of bf16 and of int8 rows.
  int64_t tile_rows, bf16_tile_rows, int8_tile_rows;
  int64_t row_unit() const { return amx ? 8 : 1; }  // see PackedRows::unit

  // These columns of one tile of rows to where `layout` wants them in `packed`: fp32 and scaled,
  // bf16 (first even), or int8 (first a multiple of kQuantGroup; so is the count, or it ends at k).
  // rows[r][0] is the first of the columns. Of int8 rows the largest |x| of a group becomes 127; a
  // group that holds NaN or infinity becomes NaN.
  void (*pack_tile)(const PackedRows& layout, int64_t tile, const ColumnRange& columns, float scale,
                    const float* const* rows, float* packed);
  void (*pack_bf16_tile)(const PackedRows& layout, int64_t tile, const ColumnRange& columns,
                         const float* const* rows, int32_t* packed);
  void (*quantize_tile)(const PackedRows& layout, int64_t tile, const ColumnRange& columns,
                        const float* const* rows, int32_t* packed);
  // rest[i] = x[i] less the multiple of its group's scale that quantize_tile makes of it, for a row
  // of int8. NaN where that is NaN.
  void (*quantization_rest)(const float* x, int64_t count, float* rest);

  // y = those rows of A times those columns of W (+ bias); A is packed for W's type. Every element
  // of Y is one chain of multiply-adds in the order k = 0, 1, ... (bf16 dot products: of pairs, by
  // AMX of steps of 32), whatever the tile, so results do not depend on M, on blocking or on
  // threads. bias, of all
  // columns, is padded to whole panels.
  void (*multiply)(const PackedRows& a, const PackedMatrix& w, const ProductPart& part,
                   const float* bias, MutableMatrixView y);
  void (*attend)(const AttentionBlock& block);

  void (*silu_multiply)(const float* gate, float* up, int64_t count);  // up = silu(gate) · up
  void (*add)(const float* x, float* y, int64_t count);                // y += x
  void (*rms_norm)(const float* x, const float* weight, float eps, float* y, int64_t count);
  // (low, high) <- (low · cos - high · sin, high · cos + low · sin)
  void (*rotate)(const float* cos, const float* sin, float* low, float* high, int64_t count);
};

// What kernels may use of the CPU's instructions.
struct KernelChoice {
  // By default no products of bf16, which round the activations that meet bf16 weights.
  DotProducts most_dot_products = DotProducts::kInt8;
  bool amx = true;  // changes no result of int8 products
};

// What programs use unless they are told otherwise. With AMX products of bf16: prefill of SmolLM2
// in bf16 is 2.4 times as fast as with fp32 activations, and its divergence from the fp32 model
// .00017 nats per token in place of .00006 (docs/benchmarks.md). Elsewhere they gain less, or
// nothing, and have to be asked for.
KernelChoice default_choice();

// The table of the best instruction set among those that hwy::SupportedTargets() reports now.
const Kernels& best_kernels(const KernelChoice& choice = {});

}  // namespace neuronmm::cpu
