#pragma once
// Computes the rank of a low-rank factorization in whole blocks (NeuronMM, equation 5):
//
//   r = round(K·N·(1 - ratio) / ((K + N)·block)) · block
//
// K is in-features, N is out-features, and ratio is the share of parameters that is removed. A
// quotient in the middle between two whole numbers goes to the even one, as Python's round() does
// in the reference system. For example Qwen3-0.6B has 4.5 blocks at ratio 0.25 and gets 4.

#include <cstdint>

namespace neuronmm::compress {

// How much to remove, and the granularity of ranks.
struct RankRule {
  double ratio = 0.0;   // in (0, 1)
  int64_t block = 128;  // the number of partitions of a NeuronCore's tensor engine
};

// Returns the whole number nearest to `blocks`. If two are equally near, returns the even one.
int64_t nearest_whole(double blocks);

// Returns the rank of a matrix by `rule`. The rank may be 0, or so large that nothing is saved.
int64_t aligned_rank(int64_t in_features, int64_t out_features, const RankRule& rule);

// Returns r·(K + N) / (K·N), the parameters after divided by those before.
double kept_share(int64_t in_features, int64_t out_features, int64_t rank);

// Returns whether the two factors together are smaller than the matrix: r < K·N / (K + N).
bool saves_parameters(int64_t in_features, int64_t out_features, int64_t rank);

}  // namespace neuronmm::compress
