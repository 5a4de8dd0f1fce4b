#pragma once
// Ranks of different sizes for different matrices, at the parameters of equal ones.
//
// Truncating one matrix alone to rank r costs the model D(r), the divergence of its predictions
// from the dense model's (sensitivity.h). D is measured at two ranks, the uniform one and the
// floor; between and beyond them it follows the energy E(r) that the truncation loses, which every
// factorization knows for all ranks:
//
//   D(r) = D(uniform) · (E(r) / E(uniform))^p,   p such that D(floor) is met;   D(dense) = 0
//
// The ranks are those with the least sum of D^0.75 over all matrices within the parameters, found
// exactly. Were the errors of different matrices independent, divergences would add (exponent 1);
// were they all alike, amplitudes would (1/2). Uniform ranks of the bundled model diverge twice as
// far as the sum of D. 3/4 was chosen by perplexity on models/demo/evaluation.txt, and held against
// 1/2, 5/8, 7/8 and 1 on stories.txt, another kind of text, by KL from the dense model: at the
// ratios 0.1, 0.2, 0.35 and 0.5 (blocks of 32) all give .0021, .0126 to .0150, .0410 to .0457 and
// .297 to .322 nats where uniform ranks give .0236, .0554, .1273 and .669. So it matters little;
// 5/8 to 7/8 differ by less than their intervals. Two measured ranks give the allocations of curves
// measured at all ranks; E alone can be worse than uniform.

#include <cstdint>
#include <vector>

#include "compress/sizes/plan.h"

namespace neuronmm::compress {

// What truncating one matrix alone does to the model.
struct MatrixSensitivity {
  double uniform_divergence = 0.0, floor_divergence = 0.0;  // nats per token
  std::vector<double> singular_values;                      // all, descending
};

// No matrix falls below three quarters of the uniform rank, rounded down to a block but at least
// one. Measured on stories260K: with half of it, where every rank counts, some ratios are worse
// than uniform.
int64_t floor_rank(int64_t uniform_rank, int64_t block);

// Refused: uniform ranks of one block, from which nothing can be taken. `source` is what messages
// call the model.
Status check_allocation(const Plan& uniform, int64_t block, const std::string& source);

struct RankChoice {
  int64_t rank = 0;  // 0: stays dense
  int64_t parameters = 0;
  double loss = 0.0;  // D^0.75
};
// Of a matrix whose uniform rank is in `uniform`, cheapest first: multiples of `block` from the
// floor to the largest that saves parameters, then dense, which costs no more than the next
// multiple would. Of more than 32 multiples evenly spaced ones, among them the uniform rank.
std::vector<RankChoice> rank_choices(const MatrixPlan& uniform, int64_t block,
                                     const MatrixSensitivity& sensitivity);

// The index of one choice of each list, such that their losses have the least sum among all whose
// parameters are at most `budget`. The first choices of all lists must fit.
std::vector<size_t> best_choices(const std::vector<std::vector<RankChoice>>& lists, int64_t budget);

struct Allocation {
  std::vector<int64_t> ranks;      // in the plan's order; 0: dense
  int64_t parameters = 0;          // of the matrices that the plan compresses
  int64_t uniform_parameters = 0;  // at most these
};
// `sensitivities`: of the matrices that `uniform` compresses, in its order.
Allocation allocate_ranks(const Plan& uniform, int64_t block,
                          const std::vector<MatrixSensitivity>& sensitivities);

}  // namespace neuronmm::compress
