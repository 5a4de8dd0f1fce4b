#pragma once
// Computes the down matrix of an MLP that loses some of its neurons. keep_neurons() (narrow_mlp.h)
// and the predicted losses (sizes/predicted_loss.h) use these functions. H hidden_size, I
// intermediate_size.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "compress/linear_algebra/linear_algebra.h"

namespace neuronmm::compress {

// Returns the value to add to the diagonal of the neurons' Gram matrix [I, I], so that the matrix
// has a Cholesky factor in fp64. The value is a small share of the mean of the diagonal, or 1 for a
// matrix of zeros.
double neuron_ridge(const DoubleMatrix& gram);

// Returns down_t [H, k] for the k neurons `kept`, which makes up for the other neurons as well as a
// linear map can. It is W·C[:, k]·C[k, k]⁻¹, where C is `neurons` [I, I], the Gram matrix of all
// neurons (Nyström; MoDeGPT, arXiv 2408.09632, section 3.2). A ridge (neuron_ridge()) keeps C[k, k]
// invertible.
//
// `kept` must hold different indices below I; nothing checks them. Fails if LAPACK finds no
// Cholesky factor in spite of the ridge, for example because `neurons` holds NaN. The message does
// not name the layer.
Result<DoubleMatrix> down_of_fewer_neurons(const DoubleMatrix& down_t, const DoubleMatrix& neurons,
                                           const std::vector<int32_t>& kept);

}  // namespace neuronmm::compress
