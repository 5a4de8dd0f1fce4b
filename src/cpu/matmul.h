#pragma once
// Matrix products on all threads: the panels of the weights are shared out, and many rows, too.

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/parallel.h"
#include "base/tensor.h"
#include "cpu/buffer.h"
#include "cpu/kernels.h"

namespace neuronmm::cpu {

// Rows of X that go through a layer together, of each thread's. Many, so that the weights are read
// again rarely; few enough that a strip X·U of 1280 columns (1.5 MiB) stays in cache. A multiple of
// 6, 12 and 32, the heights of register tiles.
inline constexpr int64_t kRowBlock = 288;
// Of all threads', which takes memory for the hidden rows of an MLP.
inline constexpr int64_t kMostBlockRows = 4 * kRowBlock;

// body(first row, rows) for blocks of rows, nearly equal in size.
template <typename Body>
void for_each_row_block(int64_t rows, const Body& body) {
  const int64_t most = std::min(kMostBlockRows, kRowBlock * num_threads());
  const int64_t blocks = (rows + most - 1) / most;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t first = rows * i / blocks;
    body(first, rows * (i + 1) / blocks - first);
  }
}

// Packs rows [rows, k] into `storage` for products with weights of that type, a part at a time.
class RowPacker {
 public:
  RowPacker(const Kernels& kernels, int64_t rows, int64_t k, WeightType weights,
            Buffer<float>& storage);

  const PackedRows& rows() const { return rows_; }
  bool is_int8() const { return int8_; }
  bool is_fp32() const { return !int8_ && !bf16_; }
  // x: the rows of these tiles, and their columns from first_column (int8: a multiple of
  // kQuantGroup) on.
  void pack(int64_t first_tile, int64_t tiles, int64_t first_column, ConstMatrixView x) const;

 private:
  void pack(int64_t tile, const ColumnRange& columns, const float* const* rows) const;

  const Kernels& kernels_;
  PackedRows rows_;
  bool int8_, bf16_;
  float* packed_;
};

// All of x at once; a single row of fp32 is used where it lies.
PackedRows pack_rows(const Kernels& kernels, ConstMatrixView x, WeightType weights,
                     Buffer<float>& storage);

// Y = A · W (+ bias), or Y += A · W.
struct Product {
  PackedRows a;
  const PackedMatrix* w = nullptr;
  const float* bias = nullptr;  // [N padded to whole panels], or nullptr
  MutableMatrixView y;
  bool add_to_y = false;  // then there is no bias
};

// Independent products as one parallel loop.
void multiply(const Kernels& kernels, std::span<const Product> products);

// hidden <- silu(A_gate · W_gate + bias) * (A_up · W_up + bias): what a thread has made of a group
// of panels is packed for the next product while it is in cache. gate.y and up.y are not used.
void multiply_gate_up(const Kernels& kernels, const Product& gate, const Product& up,
                      Buffer<float>& scratch, const RowPacker& hidden);

}  // namespace neuronmm::cpu
