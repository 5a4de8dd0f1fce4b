#pragma once
// The tokens among which the sampler draws, with their weights, and the filters (top-k,
// typical-p, top-p, min-p, XTC) that remove candidates. Sampler applies them; all functions need at
// least one candidate.

#include <span>
#include <vector>

#include "text/tokenizer/token_id.h"

namespace neuronmm::model {

using text::TokenId;

struct Candidate {
  TokenId id;
  double weight;  // proportional to its probability; the most likely candidate has 1
};

// Returns one candidate per logit, in the order of their ids, with weight exp((logit - largest) /
// temperature).
std::vector<Candidate> softmax_weights(std::span<const double> logits, double temperature);

// Gives the candidates weights as softmax_weights() makes them, so that the likeliest one has 1
// again. `logits` are the logits by token id.
void weigh_again(std::vector<Candidate>& candidates, std::span<const double> logits,
                 double temperature);

// Keeps the `count` most likely candidates. Among equally likely ones the smaller ids stay.
void keep_top_k(std::vector<Candidate>& candidates, size_t count);

// Keeps the smallest set of most likely candidates whose summed probability reaches `probability`,
// but at least one (arXiv 1904.09751).
void keep_top_p(std::vector<Candidate>& candidates, double probability);

// Keeps the candidates that are at least `share` times as likely as the most likely one (arXiv
// 2407.01082). Needs weights as softmax_weights() makes them.
void keep_min_p(std::vector<Candidate>& candidates, double share);

// Keeps the candidates whose information, -log of the probability, is nearest to the entropy, until
// their summed probability exceeds `probability` (locally typical sampling, arXiv 2202.00666). The
// probabilities are those of temperature 1. `logits` are the logits by token id.
void keep_typical(std::vector<Candidate>& candidates, std::span<const double> logits,
                  double probability);

// Removes all candidates whose probability at temperature 1 is at least `threshold`, except for the
// least likely of them (exclude top choices, XTC, as llama.cpp does it). A threshold above 0.5
// removes nothing. `logits` are the logits by token id.
void leave_out_top_choices(std::vector<Candidate>& candidates, std::span<const double> logits,
                           double threshold);

// Returns the candidate at which the cumulated probability passes `uniform`, a number in [0, 1).
TokenId draw(std::span<const Candidate> candidates, double uniform);

}  // namespace neuronmm::model
