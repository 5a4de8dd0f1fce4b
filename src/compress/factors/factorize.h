#pragma once
// Factorizes one weight matrix into two low-rank factors. The functions are pure and work on fp64
// matrices. LayerFactorization (layer_factorization.h) calls them for the matrices of a layer. They
// fail only if a LAPACK routine does.
//
// Letters are as in ops/weights.h, and matrices are transposed as checkpoints hold them: w_t [N, K]
// ~ v_t [N, r] · u_t [r, K]. u_t is applied first. G = Σ x xᵀ [K, K] over calibration tokens x is
// the Gram matrix of the matrix's input. C = Σ y yᵀ [N, N] is that of its output y = w_t·x.
//
// The rank-r matrix with the smallest output error Σ ‖(w_t - v_t·u_t) x‖² is the projection P Pᵀ
// w_t. P holds the top r left singular vectors of w_t·S, for any S with S·Sᵀ = G. S comes from an
// eigendecomposition, so a G that is singular, or indefinite because of rounding, needs no shift.
// Nothing is divided by a singular value.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "compress/rounding/stored_format.h"

namespace neuronmm::compress {

// The factors of a matrix. In the functions below, `stored` is how the factors will be stored in
// the checkpoint. Factors that will have few bits are fitted to the values after rounding, but
// returned unrounded in the dtype of the work folder, fp32 (stored_format.h).
struct Factors {
  DoubleMatrix v_t;  // [N, r]; applied second
  DoubleMatrix u_t;  // [r, K]; applied first
  // All singular values of w_t·S (whitened) or w_t (plain), descending.
  std::vector<double> singular_values;
};

// Returns Σ_{i >= rank} σ_i² / Σ σ_i², the share of the (output) energy that the truncation loses.
double energy_lost(const std::vector<double>& singular_values, int64_t rank);

// Factorizes as the reference code does: the truncated SVD of w_t, with √σ multiplied into each
// factor and both factors rounded to `stored`. If the factors will have few bits, a group of
// columns of v_t shares a scale. v_t is then orthonormal, and u_t is fitted to it as in
// factorize_whitened().
Result<Factors> factorize_plain(const DoubleMatrix& w_t, int64_t rank, const StoredFormat& stored);

// Factorizes with the Gram matrix of the input, for matrices whose K is the smaller side (gate,
// up). `root` is the S of that matrix. v_t is orthonormal before it is rounded to `stored`. u_t is
// then fitted to the rounded v_t, so that only the rounding of u_t itself adds an error.
Result<Factors> factorize_whitened(const DoubleMatrix& w_t, const DoubleMatrix& root, int64_t rank,
                                   const StoredFormat& stored);

// Computes the same optimum from the Gram matrix of the output, for matrices whose N is the smaller
// side (down). P holds the top eigenvectors of C, and σ_i = √eigenvalue.
Result<Factors> factorize_by_output(const DoubleMatrix& w_t, DoubleMatrix gram_out, int64_t rank,
                                    const StoredFormat& stored);

}  // namespace neuronmm::compress
