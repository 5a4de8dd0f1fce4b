#pragma once
// One weight matrix as two low-rank factors. Pure functions on fp64 matrices.
//
// Letters as in ops/weights.h, transposed as checkpoints hold them: w_t [N, K] ~ v_t [N, r] ·
// u_t [r, K]; u_t is applied first. G = Σ x xᵀ over calibration tokens x is the Gram matrix of the
// matrix's input, [K, K]; C = Σ y yᵀ that of its output y = w_t·x, [N, N].
//
// The rank-r matrix with the smallest output error Σ ‖(w_t - v_t·u_t) x‖² is the projection P Pᵀ
// w_t, P = the top r left singular vectors of w_t·S for any S with S·Sᵀ = G. S comes from an
// eigendecomposition, so a singular or indefinite (by rounding) G needs no shift, and nothing is
// ever divided by a singular value.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "compress/stored_format.h"

namespace neuronmm::compress {

// `stored` is how the factors will lie in the checkpoint. Those that will have few bits are fitted
// to what rounding makes of them, and returned as the work folder holds them: in fp32, to be
// rounded (stored_format.h).
struct Factors {
  DoubleMatrix v_t;                     // [N, r]; applied second
  DoubleMatrix u_t;                     // [r, K]; applied first
  std::vector<double> singular_values;  // of w_t·S (whitened) or w_t (plain), all, descending
};

// Σ_{i >= rank} σ_i² / Σ σ_i²: the share of the (output) energy that the truncation loses.
double energy_lost(const std::vector<double>& singular_values, int64_t rank);

// The reference code's factorization: the truncated SVD of w_t, √σ on either side, both factors
// rounded to `stored`. Of few bits, where a group of columns of v_t shares a scale, v_t is
// orthonormal instead and u_t fitted to it, as below.
Result<Factors> factorize_plain(const DoubleMatrix& w_t, int64_t rank, const StoredFormat& stored);

// Whitened by the input's Gram matrix, for matrices whose K is the small side (gate, up). v_t is
// orthonormal before it is rounded to `stored`; u_t is then fitted to the rounded v_t, which leaves
// the rounding of u_t as the only one that counts.
Result<Factors> factorize_whitened(const DoubleMatrix& w_t, const DoubleMatrix& root, int64_t rank,
                                   const StoredFormat& stored);

// The same optimum from the output's Gram matrix, for matrices whose N is the small side (down):
// P = the top eigenvectors of C, σ_i = √eigenvalue.
Result<Factors> factorize_by_output(const DoubleMatrix& w_t, DoubleMatrix gram_out, int64_t rank,
                                    const StoredFormat& stored);

}  // namespace neuronmm::compress
