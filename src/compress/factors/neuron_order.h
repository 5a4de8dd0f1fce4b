#pragma once
// Decides which neurons a smaller MLP keeps. Neurons are removed one after the other. Each step
// removes the neuron whose loss is the smallest if all neurons that are left make up for it
// (optimal brain surgeon). predict_losses() (sizes/predicted_loss.h) calls neuron_order().
//
// A [H, I] is a root of the output's metric times down, and C [I, I] is the neurons' Gram matrix.
// With P = C⁻¹ and G = AᵀA, the removal of neuron i costs ½ G_ii / P_ii. After the removal both
// matrices are updated, which makes row and column i of P zero:
//
//   X ← E·X·Eᵀ for X = P, G,  E = 1 - c·e_iᵀ,  c = P·e_i / P_ii
//
// P is then the inverse of what is left of C, and G belongs to A with the best compensation. So if
// two neurons are copies of each other, the second one becomes valuable as soon as the first is
// removed.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "compress/linear_algebra/linear_algebra.h"

namespace neuronmm::compress {

// The largest number of neurons that are removed one after the other. A larger number is scored in
// one step, each neuron compared with all others, because five matrices [I, I] would take
// gigabytes. On SmolLM2 the order of removal gains next to nothing (docs/measurements/quality.md).
// Assumed.
inline constexpr int64_t kMostOneByOne = 4096;

// Returns the neurons so that the first k are the ones to keep, for every k. `weighted` is A, and
// `gram` is C, which must be positive definite. The function fails if it is not.
//
// The cost is 2·I³ multiply-adds, nearly all in matrix products, and the memory of five matrices
// [I, I]. Above kMostOneByOne neurons it is I³ / 3 multiply-adds and one matrix.
Result<std::vector<int32_t>> neuron_order(const DoubleMatrix& weighted, DoubleMatrix gram);

}  // namespace neuronmm::compress
