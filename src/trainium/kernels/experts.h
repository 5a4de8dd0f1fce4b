#pragma once
// This file turns a router's choice into the operands of the kernels for mixtures (moe_mlp.h): the
// distinct experts that the tokens of a batch choose, and the share of each of them in the output
// of each token. The host calls it before a launch.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"

namespace neuronmm::kernels {

// The experts of each token and the weight of each of them, as [tokens, active], row-major.
struct ExpertChoice {
  int64_t tokens = 0, active = 0;
  std::vector<int64_t> experts;
  std::vector<float> weights;
};

struct GroupedExperts {
  Matrix experts;  // [1, slots]: the numbers of the distinct experts, in ascending order.
  Matrix shares;   // [tokens, slots]: the weights; 0 if a token has not chosen the expert.
  int64_t distinct = 0;
};

// Groups the tokens by expert. A kernel is made for a number of `slots`; with 0 there are as many
// as distinct experts. Slots that are left over repeat the last expert with shares of 0.
//
// Fails if a number is not one of `num_experts` experts, if a token chooses an expert twice, or if
// there are more distinct experts than slots. The message names the token and the numbers.
Result<GroupedExperts> group_by_expert(const ExpertChoice& choice, int64_t num_experts,
                                       int64_t slots = 0);

}  // namespace neuronmm::kernels
