#pragma once
// What is left of an MLP of which some neurons go. H hidden_size, I intermediate_size.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "compress/linear_algebra.h"

namespace neuronmm::compress {

// Returns what must be added to the diagonal of the neurons' Gram matrix [I, I] for it to have a
// Cholesky factor in fp64.
double neuron_ridge(const DoubleMatrix& gram);

// Returns the down_t [H, k] for the k neurons `kept`, in which they make up for the others as well
// as they can (Nyström; MoDeGPT, arXiv 2408.09632, section 3.2): W·C[:, k]·C[k, k]⁻¹, with C =
// `neurons` [I, I], the Gram matrix of all neurons.
Result<DoubleMatrix> down_of_fewer_neurons(const DoubleMatrix& down_t, const DoubleMatrix& neurons,
                                           const std::vector<int32_t>& kept);

}  // namespace neuronmm::compress
