#pragma once
// A linear layer that may be low-rank or have pivots, packed: Y = X·W or Y = (X·U)·V. A block of
// rows goes through both factors before the next one starts, so the strip X·U stays in cache. The
// strip of input pivots is x[pivots] + x[others]·D, and takes the place of X·U; output pivots make
// another product of Y = X·W.

#include <memory>
#include <span>
#include <vector>

#include "cpu/matmul.h"
#include "cpu/pivots.h"
#include "ops/backend.h"

namespace neuronmm::cpu {

class PackedLinear {
 public:
  explicit PackedLinear(const ops::LinearWeight& weight);

  // Whether there is a strip between the input and the last product.
  bool has_strip() const { return strip_width() > 0; }
  int64_t strip_width() const { return in_.empty() ? u_.n() : in_.rank(); }
  int64_t in_features() const {
    return !in_.empty() ? in_.features() : u_.empty() ? w_.k() : u_.k();
  }
  int64_t out_features() const { return out_.empty() ? w_.n() : out_.features(); }
  const PackedPivots& in() const { return in_; }
  const PackedPivots& out() const { return out_; }
  // What rows are packed for: the input, and the strip, or else the input.
  WeightType first_type() const {
    return rows_for(!in_.empty() ? in_.map().type() : u_.empty() ? w_.type() : u_.type());
  }
  WeightType last_type() const { return rows_for(w_.type()); }

  // Where the strip of so many rows goes; without one, of width 0.
  MutableMatrixView strip_in(Buffer<float>& storage, int64_t rows) const {
    return {storage.reserve(rows * strip_width()), rows, strip_width()};
  }
  // The strip X·U of packed x; only of U·V.
  Product strip(const PackedRows& x, MutableMatrixView y) const {
    return {.a = x, .w = &u_, .y = y};
  }
  // Y = A·V (+ bias) with the packed strip, or Y = A·W (+ bias) when there is none. With output
  // pivots their columns, without the bias.
  Product output(const PackedRows& a, MutableMatrixView y) const {
    return {.a = a, .w = &w_, .bias = bias_.empty() ? nullptr : bias_.data(), .y = y};
  }

 private:
  PackedMatrix u_;  // empty when dense
  PackedMatrix w_;  // V when low-rank
  PackedPivots in_, out_;
  std::vector<float> bias_;  // empty, or padded to whole panels
};

// What the layers of one backend share: memory that grows to the largest layer's need and is then
// used again, so that decoding allocates nothing. One forward at a time may use it.
struct LayerScratch {
  Buffer<float> rows, second_rows, hidden_rows;  // packed activations
  Buffer<float> strip, strip_rows;               // X·U, and packed
  Buffer<float> second_strip, second_strip_rows;
  Buffer<float> narrow;        // an MLP's input on its shared pivots
  Buffer<float> pivots, rest;  // of an output with pivots
  Buffer<float> gate_up;       // of an MLP: each thread's part
};

// y = the layer's output for packed x, of a layer without input pivots; one block of rows.
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
