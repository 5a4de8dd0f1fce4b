#pragma once
// A packed linear layer on the CPU, which may be dense, low-rank or pivoted: Y = X·W or Y =
// (X·U)·V. A block of rows passes through both factors before the next one starts, so that the
// strip X·U stays in cache. With input pivots the strip is x[pivots] + x[others]·D in place of X·U.
// Output pivots need another product after Y = X·W. The CPU backend and its MLP use these
// functions.

#include <memory>
#include <span>
#include <vector>

#include "cpu/backend.h"
#include "cpu/matmul.h"
#include "cpu/pivots.h"
#include "ops/backend.h"

namespace neuronmm::cpu {

// The packed weights of one layer.
class PackedLinear {
 public:
  explicit PackedLinear(const ops::LinearWeight& weight,
                        ForeignWeights foreign = ForeignWeights::kNearest, Arena* arena = nullptr);

  // Returns whether there is a strip between the input and the last product.
  bool has_strip() const { return strip_width() > 0; }
  int64_t strip_width() const { return in_.empty() ? u_.n() : in_.rank(); }
  int64_t in_features() const {
    return !in_.empty() ? in_.features() : u_.empty() ? w_.k() : u_.k();
  }
  int64_t out_features() const { return out_.empty() ? w_.n() : out_.features(); }
  const PackedPivots& in() const { return in_; }
  const PackedPivots& out() const { return out_; }
  // The types that rows are packed for: first_type() for the input, last_type() for the strip (or
  // for the input if there is no strip).
  WeightType first_type() const {
    return rows_for(!in_.empty() ? in_.map().type() : u_.empty() ? w_.type() : u_.type());
  }
  WeightType last_type() const { return rows_for(w_.type()); }

  // Returns memory for the strip of this many rows, of width 0 if the layer has none.
  MutableMatrixView strip_in(Buffer<float>& storage, int64_t rows) const {
    return {storage.reserve(rows * strip_width()), rows, strip_width()};
  }
  // Returns the product that makes the strip X·U of packed x. Only for low-rank layers.
  Product strip_product(const PackedRows& x, MutableMatrixView y) const {
    return {.a = x, .w = &u_, .y = y};
  }
  // Returns the last product: Y = A·V (+ bias) with the packed strip, or Y = A·W (+ bias) without
  // one. With output pivots Y has their columns only, and the bias is added later.
  Product output(const PackedRows& a, MutableMatrixView y) const {
    const bool adds = !bias_.empty() && out_.empty();
    return {.a = a, .w = &w_, .bias = adds ? bias_.data() : nullptr, .y = y};
  }
  const std::vector<float>& bias() const { return bias_; }

 private:
  PackedMatrix u_;  // empty if the layer is dense
  PackedMatrix w_;  // V if the layer is low-rank
  PackedPivots in_, out_;
  std::vector<float> bias_;  // empty, or padded to whole panels
};

// Memory that the layers of one backend share. It grows to the largest layer's need and is then
// reused, so that decoding allocates nothing. Only one forward pass may use it at a time.
struct LayerScratch {
  Buffer<float> rows, second_rows, hidden_rows;  // packed activations
  Buffer<float> strip, strip_rows;               // X·U, and the same packed
  Buffer<float> second_strip, second_strip_rows;
  Buffer<float> narrow;        // the input of an MLP on its shared pivots
  Buffer<float> pivots, rest;  // the columns of an output with pivots: the pivots and the rest
  Buffer<float> gate_up;       // gate and up of an MLP, a part for each thread
};

// Computes y, the layer's output for packed x. For layers without input pivots, and for one block
// of rows.
void apply_linear(const Kernels& kernels, const PackedLinear& linear, const PackedRows& x,
                  LayerScratch& scratch, MutableMatrixView y);

std::unique_ptr<ops::Linear> make_linear(const Kernels& kernels,
                                         std::shared_ptr<LayerScratch> scratch,
                                         const ops::LinearWeight& weight, ForeignWeights foreign);

// Computes ys[i] = linears[i](x) for layers that make_linear() made. Dense layers with the same
// type of weights share the packed x and run in one parallel loop.
void apply_together(const Kernels& kernels, LayerScratch& scratch,
                    std::span<const ops::Linear* const> linears, ConstMatrixView x,
                    std::span<const MutableMatrixView> ys);

}  // namespace neuronmm::cpu
