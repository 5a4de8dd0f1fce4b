#pragma once
// Which neurons a smaller MLP keeps: one after the other goes, each time the one whose loss is the
// least when all that are left make up for it.
//
// With A [H, I] a root of the output's metric times down and C [I, I] the neurons' Gram matrix, the
// loss of neuron i beside those that have gone is ½ G_ii / P_ii with P = C⁻¹ and G = AᵀA (optimal
// brain surgeon). When i goes, both change by one congruence, which makes row and column i of P
// zero:
//
//   X ← E·X·Eᵀ for X = P, G,  E = 1 - c·e_iᵀ,  c = P·e_i / P_ii
//
// P is then the inverse of what is left of C, and G that of A with the best compensation. So of two
// copies the second is worth much as soon as the first has gone.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "compress/linear_algebra/linear_algebra.h"

namespace neuronmm::compress {

// More neurons than these are scored once, each beside all others: five matrices [I, I] would take
// gigabytes, and on SmolLM2 the order gains nothing (KL .418 / .392 after .418 / .395). Assumed.
inline constexpr int64_t kMostOneByOne = 4096;

// The neurons, the one that goes last first: the first k are those that stay where k do. `weighted`
// is A; `gram` is C, positive definite. 2·I³ multiply-adds, nearly all of them in products of
// matrices, and five matrices [I, I]; above kMostOneByOne, I³ / 3 and one.
Result<std::vector<int32_t>> neuron_order(const DoubleMatrix& weighted, DoubleMatrix gram);

}  // namespace neuronmm::compress
