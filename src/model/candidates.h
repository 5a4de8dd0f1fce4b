#pragma once
// The tokens that may be drawn, and what makes them fewer.

#include <span>
#include <vector>

#include "text/token_id.h"

namespace neuronmm::model {

using text::TokenId;

struct Candidate {
  TokenId id;
  double weight;  // proportional to its probability; the most likely candidate has 1
};

// exp(l / temperature) of every logit, relative to that of the largest.
std::vector<Candidate> softmax_weights(std::span<const double> logits, double temperature);

// The `count` most likely; of equal ones those with smaller ids.
void keep_top_k(std::vector<Candidate>& candidates, size_t count);

// The smallest set of most likely candidates whose probability reaches `probability`; at least one
// (arXiv 1904.09751).
void keep_top_p(std::vector<Candidate>& candidates, double probability);

// Those at least `share` times as likely as the most likely one (arXiv 2407.01082).
void keep_min_p(std::vector<Candidate>& candidates, double share);

// The candidate at `uniform`, in [0, 1), of the cumulated probabilities.
TokenId draw(std::span<const Candidate> candidates, double uniform);

}  // namespace neuronmm::model
