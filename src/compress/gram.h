#pragma once
// Gram matrices of the MLPs: what whitening needs to know about the calibration text.
//
// H hidden_size. Of every layer, over all calibration tokens:
//   in  [H, H] = Σ x xᵀ, x the input of gate and up (after post_attention_layernorm)
//   out [H, H] = Σ y yᵀ, y the output of down (before the residual is added)

#include <functional>

#include "base/result.h"
#include "base/tensor.h"
#include "compress/linear_algebra.h"

namespace neuronmm::compress {

// sum += Σ x xᵀ over the rows x of [M, n], in fp64; of sum [n, n] the lower triangle only. Here and
// below a larger sum takes it in its first rows and columns.
void add_gram(ConstMatrixView rows, DoubleMatrix& sum);
// sum += Σ a bᵀ over the rows a, b of [M, m] and [M, n], in fp64; sum [m, n].
void add_cross_gram(ConstMatrixView a, ConstMatrixView b, DoubleMatrix& sum);
// The whole of a symmetric matrix from its lower triangle.
DoubleMatrix symmetric(const DoubleMatrix& lower_triangle);

struct LayerGrams {
  DoubleMatrix in, out;  // [H, H]
};
using GramSource = std::function<Result<LayerGrams>(int64_t layer)>;

}  // namespace neuronmm::compress
