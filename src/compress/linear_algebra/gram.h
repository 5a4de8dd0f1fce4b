#pragma once
// Gram matrices of the calibration text. add_gram() and add_cross_gram() sum them up for all
// statistics (compress/statistics). Form uv of `compress` whitens its weights by the LayerGrams of
// each layer.
//
// H hidden_size.

#include <functional>

#include "base/result.h"
#include "base/tensor.h"
#include "compress/linear_algebra/linear_algebra.h"

namespace neuronmm::compress {

// Computes sum += Σ x xᵀ over the rows x of `rows` [M, n], in fp64. Only the lower triangle of sum
// [n, n] is updated. If `sum` is larger than needed, this function and add_cross_gram() use its
// first rows and columns.
void add_gram(ConstMatrixView rows, DoubleMatrix& sum);
// Computes sum += Σ a bᵀ over the rows a of [M, m] and b of [M, n], in fp64. `sum` is [m, n].
void add_cross_gram(ConstMatrixView a, ConstMatrixView b, DoubleMatrix& sum);
// Returns the whole symmetric matrix with the given lower triangle.
DoubleMatrix symmetric(const DoubleMatrix& lower_triangle);

// The Gram matrices of one layer's MLP over all calibration tokens x and y. Means over the tokens
// serve as well as sums, because a factor does not change the whitened SVD.
struct LayerGrams {
  // `in` [H, H] = Σ x xᵀ, x the input of gate and up (after post_attention_layernorm). `out` [H, H]
  // = Σ y yᵀ, y the output of down (before the residual is added).
  DoubleMatrix in, out;
};
// Returns the Gram matrices of a layer (compress/statistics/layer_grams.h).
using GramSource = std::function<Result<LayerGrams>(int64_t layer)>;

}  // namespace neuronmm::compress
