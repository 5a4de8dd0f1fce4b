#pragma once
// This file declares the SwiGLU layer of a mixture of experts for one decode step, in its dense
// form and as U·V. X is [M, K], tokens x hidden size, with up to 32 tokens; N is the experts'
// intermediate size. Callers reach the kernels by name through registry.h.
//
//   Y = sum over the distinct chosen experts e of share_e * E_e(X)
//   E_e(X) = (silu(X·Wg_e) * (X·Wu_e))·Wd_e                        dense_moe_mlp
//   E_e(X) = (silu(X·Ug_e·Vg_e) * (X·Uu_e·Vu_e))·Ud_e·Vd_e         moe_mlp
//
// The operand `experts` [1, D] holds the numbers of the distinct experts that the tokens choose,
// and `shares` [M, D] the weight of each of them for each token, 0 for a token that has not chosen
// it (experts.h makes both). The weights of all experts lie one below the other in HBM, and only
// those of the D experts are loaded, each once. Every loaded expert computes all M tokens, because
// a step of 32 tokens takes the Tensor engine as long as one of 1.
//
// All sums are in fp32, whatever KernelOptions::accumulate says: contractions stay in PSUM until
// they are complete, and the outputs of the experts add up in SBUF. H and the strips of U·V stay in
// SBUF, rounded to the operands' dtype.

#include "trainium/kernels/kernel.h"
#include "trainium/tile/program.h"

namespace neuronmm::kernels {

tile::Program dense_moe_mlp(const KernelShape&, const Tiling&, const KernelOptions&);
tile::Program moe_mlp(const KernelShape&, const Tiling&, const KernelOptions&);

}  // namespace neuronmm::kernels
