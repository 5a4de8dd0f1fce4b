#pragma once
// Chooses a rank for each MLP matrix so that the model loses least with no more parameters than
// uniform ranks have. `compress --form uv --allocate measured` uses it: measured_ranks.cc calls
// allocate_ranks(), and sensitivity.cc measures the divergences that it needs. The other functions
// are its parts, which tests also call.
//
// Truncating one matrix alone to rank r costs the model D(r), the divergence of its predictions
// from the dense model's (sensitivity.h). D is measured at two ranks, the uniform one and the
// floor. At other ranks D follows the energy E(r) that the truncation loses, which every
// factorization knows for all ranks:
//
//   D(r) = D(uniform) · (E(r) / E(uniform))^p,   D(dense) = 0
//
// The power p is chosen so that D(floor) is the measured one. The ranks are those with the least
// sum of D^0.75 over all matrices within the budget of parameters. The search is exact.
//
// If the errors of different matrices were independent, divergences would add (exponent 1). If all
// errors were alike, amplitudes would add (exponent 1/2). The exponent 3/4 was chosen by perplexity
// on models/demo/evaluation.txt and checked on another text. It matters little: all exponents from
// 1/2 to 1 are far better than uniform ranks (measured, docs/measurements/quality.md). Two measured
// ranks per matrix give the same allocations as curves that are measured at all ranks. The energy
// alone can give worse allocations than uniform ranks.

#include <cstdint>
#include <vector>

#include "compress/sizes/plan.h"

namespace neuronmm::compress {

// The effect of truncating one matrix alone on the model.
struct MatrixSensitivity {
  // Mean KL from the dense model at the two ranks, in nats per token.
  double uniform_divergence = 0.0, floor_divergence = 0.0;
  std::vector<double> singular_values;  // all, in descending order
};

// Returns the smallest rank that the search may choose: three quarters of the uniform rank, rounded
// down to whole blocks, but at least one block. With half of the uniform rank some ratios are worse
// than uniform ranks on stories260K, a model without spare parameters (measured).
int64_t floor_rank(int64_t uniform_rank, int64_t block);

// Fails if a uniform rank is one block, because then no matrix can give up parameters. The message
// names the first such matrix and says what the user can change. `source` is what it calls the
// model. `compress` calls the function before the model is run, and in a dry run.
Status check_allocation(const Plan& uniform, int64_t block, const std::string& source);

// A rank that a matrix may get.
struct RankChoice {
  int64_t rank = 0;  // 0: the matrix stays dense
  int64_t parameters = 0;
  double loss = 0.0;  // D^0.75
};
// Lists the ranks that the search may choose for one matrix, cheapest first. `uniform` is the
// matrix's entry in the plan of uniform ranks. The choices are the multiples of `block` from the
// floor to the largest one that saves parameters, then "dense". Of more than 32 multiples only
// evenly spaced ones are listed, the uniform rank among them. "Dense" costs no more parameters than
// the next multiple of `block` would.
std::vector<RankChoice> rank_choices(const MatrixPlan& uniform, int64_t block,
                                     const MatrixSensitivity& sensitivity);

// Returns the index of one choice from each list. Among all selections with at most `budget`
// parameters, this one has the least sum of losses. Each list must be sorted by parameters and must
// not be empty. If the first choices of all lists do not fit into the budget, that is a programming
// error (NMM_CHECK).
std::vector<size_t> best_choices(const std::vector<std::vector<RankChoice>>& lists, int64_t budget);

// The chosen ranks, compared with uniform ones.
struct Allocation {
  std::vector<int64_t> ranks;      // in the plan's order; 0: dense
  int64_t parameters = 0;          // of the matrices that the plan compresses
  int64_t uniform_parameters = 0;  // the budget: parameters with uniform ranks
};
// Chooses ranks within the parameters of `uniform`. `sensitivities` must have one entry for each
// matrix that `uniform` compresses, in the plan's order. check_allocation() must have succeeded for
// `uniform`. Cannot fail.
Allocation allocate_ranks(const Plan& uniform, int64_t block,
                          const std::vector<MatrixSensitivity>& sensitivities);

}  // namespace neuronmm::compress
