#pragma once
// The rank of a low-rank factorization in whole blocks (NeuronMM, equation 5):
//   r = round(K·N·(1 - ratio) / ((K + N)·block)) · block
// A quotient in the middle between two whole numbers goes to the even one, as in the reference
// system, whose Python's round() does that: Qwen3-0.6B (1024 x 3072) at ratio 0.25 has 4.5 blocks
// of 128 and gets 4. K in-features, N out-features, ratio = the share of parameters removed.

#include <cstdint>

namespace neuronmm::compress {

struct RankRule {
  double ratio = 0.0;   // in (0, 1)
  int64_t block = 128;  // the partition count of a NeuronCore's tensor engine
};

// The whole number nearest to `blocks`; of two that are equally near the even one.
int64_t nearest_whole(double blocks);

// May be 0, or so large that nothing is saved.
int64_t aligned_rank(int64_t in_features, int64_t out_features, const RankRule& rule);

// r·(K + N) / (K·N): parameters after / before.
double kept_share(int64_t in_features, int64_t out_features, int64_t rank);

// Whether both factors together are smaller than the matrix: r < K·N / (K + N).
bool saves_parameters(int64_t in_features, int64_t out_features, int64_t rank);

}  // namespace neuronmm::compress
