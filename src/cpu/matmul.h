#pragma once
// Matrix products on all threads. The panels of the weights are divided among the threads, and so
// are the rows if there are many. PackedLinear and the MLP are built on them.

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/parallel.h"
#include "base/tensor.h"
#include "cpu/buffer.h"
#include "cpu/kernels.h"

namespace neuronmm::cpu {

// The number of rows of X, per thread, that pass through a layer together. Many rows let the
// weights be read less often. The number is small enough that a strip X·U of 1280 columns (1.4 MiB)
// stays in cache. It is a multiple of 6, 12 and 32, the heights of register tiles.
inline constexpr int64_t kRowBlock = 288;
// The limit for all threads together, because the hidden rows of an MLP take memory.
inline constexpr int64_t kMostBlockRows = 4 * kRowBlock;

// Calls body(first row, rows) for blocks of rows that are nearly equal in size.
template <typename Body>
void for_each_row_block(int64_t rows, const Body& body) {
  const int64_t most = std::min(kMostBlockRows, kRowBlock * num_threads());
  const int64_t blocks = (rows + most - 1) / most;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t first = rows * i / blocks;
    body(first, rows * (i + 1) / blocks - first);
  }
}

// The cost of packing an element, in multiply-adds on data in cache. Assumed.
inline constexpr int64_t kPackWork = 4;

// Packs rows [rows, k] into `storage` for products with weights of type `weights`. It can pack one
// part at a time.
class RowPacker {
 public:
  RowPacker(const Kernels& kernels, int64_t rows, int64_t k, WeightType weights,
            Buffer<float>& storage);
  // Makes a packer without memory. place() must get memory for words() words, aligned to a cache
  // line, before anything is packed.
  RowPacker(const Kernels& kernels, int64_t rows, int64_t k, WeightType weights);
  int64_t words() const { return words_; }
  void place(float* memory);

  const PackedRows& rows() const { return rows_; }
  bool is_int8() const { return int8_; }
  bool is_fp32() const { return !int8_ && !bf16_; }
  // Packs a part. `x` has the rows of these tiles, and their columns from first_column on (for int8
  // a multiple of kQuantGroup).
  void pack(int64_t first_tile, int64_t tiles, int64_t first_column, ConstMatrixView x) const;
  // Packs a part of one tile, whose rows may lie anywhere. rows[r][0] is the first of the columns.
  void pack(int64_t tile, const ColumnRange& columns, const float* const* rows) const;
  // Packs all of x, on all threads.
  void pack_all(ConstMatrixView x) const;

 private:
  const Kernels& kernels_;
  PackedRows rows_;
  bool int8_, bf16_;
  int64_t words_ = 0;
  float* packed_ = nullptr;
};

// Packs all of x. A single row of fp32 is not copied.
PackedRows pack_rows(const Kernels& kernels, ConstMatrixView x, WeightType weights,
                     Buffer<float>& storage);

// A product to compute: Y = A · W (+ bias), or Y += A · W.
struct Product {
  PackedRows a;
  const PackedMatrix* w = nullptr;
  const float* bias = nullptr;  // [N padded to whole panels], or nullptr
  MutableMatrixView y;
  bool add_to_y = false;  // if true, there is no bias
};

// Computes independent products in one parallel loop.
void multiply(const Kernels& kernels, std::span<const Product> products);

// Gate and up of one MLP. gate.y and up.y are not used.
struct GateUp {
  Product gate, up;
  const RowPacker* hidden = nullptr;  // where the packed hidden rows go
};

// Computes gated(A_gate · W_gate + bias, A_up · W_up + bias) of every MLP and packs it into its
// `hidden`, in one parallel loop. A thread packs its part of a group of panels for the next product
// while it is in cache. `gating` is the function of the activation.
void multiply_gate_up(const Kernels& kernels, std::span<const GateUp> mlps, const Gating& gating,
                      Buffer<float>& scratch);

// A product whose rows are added to some rows of a sum, with a factor each. product.y is not used.
struct WeightedProduct {
  Product product;
  std::span<const int32_t> rows;   // of the sum, for each row of the product, all different
  std::span<const float> factors;  // of each row of the product
};

// Sets y to the sum of the products, which is formed in their order, in one parallel loop, or adds
// them to y. All products have as many columns as y.
void add_weighted(const Kernels& kernels, std::span<const WeightedProduct> products,
                  Buffer<float>& scratch, MutableMatrixView y, bool add_to_y = false);

}  // namespace neuronmm::cpu
