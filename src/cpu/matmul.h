#pragma once
// Matrix products on all threads: the panels of the weights are shared out, each is computed by one
// thread.

#include <cstdint>
#include <span>

#include "base/tensor.h"
#include "cpu/buffer.h"
#include "cpu/kernels.h"

namespace neuronmm::cpu {

// Rows of X that go through a layer together. Many, so that the weights are read again rarely; few
// enough that a strip X·U of 1280 columns (1.2 MiB) stays in cache. A multiple of 6 and of 12, the
// heights of register tiles.
inline constexpr int64_t kRowBlock = 240;

// body(first row, rows) for blocks of at most kRowBlock rows, nearly equal in size.
template <typename Body>
void for_each_row_block(int64_t rows, const Body& body) {
  const int64_t blocks = (rows + kRowBlock - 1) / kRowBlock;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t first = rows * i / blocks;
    body(first, rows * (i + 1) / blocks - first);
  }
}

// Packs x into `storage` for products with weights of that type; a single row of fp32 is used where
// it lies.
PackedRows pack_rows(const Kernels& kernels, ConstMatrixView x, WeightType weights,
                     Buffer<float>& storage);

// Y = A · W (+ bias).
struct Product {
  PackedRows a;
  const PackedMatrix* w = nullptr;
  const float* bias = nullptr;  // [N padded to whole panels], or nullptr
  MutableMatrixView y;
};

// Independent products as one parallel loop.
void multiply(const Kernels& kernels, std::span<const Product> products);

// up.y = silu(A_gate · W_gate + bias) * (A_up · W_up + bias), applied to each group of panels while
// it is in cache. gate.y is scratch.
void multiply_gate_up(const Kernels& kernels, const Product& gate, const Product& up);

}  // namespace neuronmm::cpu
