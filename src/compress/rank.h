#pragma once
// The block-aligned rank of a low-rank factorization (NeuronMM, equation 5):
//   r = floor(K·N·(1 - ratio) / ((K + N)·block) + alpha) · block
// with alpha 0 (floor), 0.5 (nearest), or the true ceiling. Where nearest lies in the middle of two
// multiples, it is the even one, as in the reference system, whose Python's round() does that:
// Qwen3-0.6B (1024 x 3072) at ratio 0.25 has 4.5 blocks of 128 and gets 4. K in-features, N
// out-features, ratio = the share of parameters removed.

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace neuronmm::compress {

enum class Align { kNearest, kFloor, kCeil };
std::string_view align_name(Align align);  // "nearest", "floor", "ceil"
Result<Align> parse_align(std::string_view name);

struct RankRule {
  double ratio = 0.0;   // in (0, 1)
  int64_t block = 128;  // the partition count of a NeuronCore's tensor engine
  Align align = Align::kNearest;
};

// A number of blocks that is rarely whole, aligned.
int64_t aligned(double blocks, Align align);

// May be 0, or so large that nothing is saved.
int64_t aligned_rank(int64_t in_features, int64_t out_features, const RankRule& rule);

// r·(K + N) / (K·N): parameters after / before.
double kept_share(int64_t in_features, int64_t out_features, int64_t rank);

// Whether both factors together are smaller than the matrix: r < K·N / (K + N).
bool saves_parameters(int64_t in_features, int64_t out_features, int64_t rank);

}  // namespace neuronmm::compress
