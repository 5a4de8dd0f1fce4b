#pragma once
// A linear layer that may be low-rank, packed: Y = X·W or Y = (X·U)·V. A block of rows goes through
// both factors before the next one starts, so the strip X·U stays in cache.

#include <memory>
#include <span>
#include <vector>

#include "cpu/matmul.h"
#include "ops/backend.h"

namespace neuronmm::cpu {

class PackedLinear {
 public:
  explicit PackedLinear(const ops::LinearWeight& weight);

  bool low_rank() const { return !u_.empty(); }
  int64_t in_features() const { return low_rank() ? u_.k() : w_.k(); }
  int64_t out_features() const { return w_.n(); }
  int64_t rank() const { return u_.n(); }  // 0: dense
  WeightType first_type() const { return low_rank() ? u_.type() : w_.type(); }
  WeightType last_type() const { return w_.type(); }

  // The strip X·U; only when low-rank.
  Product strip(const PackedRows& x, MutableMatrixView y) const { return {x, &u_, nullptr, y}; }
  // Y = A·V (+ bias) with the packed strip, or Y = A·W (+ bias) when dense.
  Product output(const PackedRows& a, MutableMatrixView y) const {
    return {a, &w_, bias_.empty() ? nullptr : bias_.data(), y};
  }

 private:
  PackedMatrix u_;           // empty when dense
  PackedMatrix w_;           // V when low-rank
  std::vector<float> bias_;  // empty, or padded to whole panels
};

// What the layers of one backend share: memory that grows to the largest layer's need and is then
// used again, so that decoding allocates nothing. One forward at a time may use it.
struct LayerScratch {
  Buffer<float> rows, second_rows, hidden_rows;  // packed activations
  Buffer<float> strip, strip_rows;               // X·U, and packed
  Buffer<float> second_strip, second_strip_rows;
  Buffer<float> gate_up;  // of an MLP: each thread's part
};

// y = the layer's output for packed x; one block of rows.
void apply_linear(const Kernels& kernels, const PackedLinear& linear, const PackedRows& x,
                  LayerScratch& scratch, MutableMatrixView y);

std::unique_ptr<ops::Linear> make_linear(const Kernels& kernels,
                                         std::shared_ptr<LayerScratch> scratch,
                                         const ops::LinearWeight& weight);

// ys[i] = linears[i](x), of layers that make_linear made. Dense ones of one type of weights read
// the same packed x and are one parallel loop.
void apply_together(const Kernels& kernels, LayerScratch& scratch,
                    std::span<const ops::Linear* const> linears, ConstMatrixView x,
                    std::span<const MutableMatrixView> ys);

}  // namespace neuronmm::cpu
