#pragma once
// The Kullback-Leibler divergence between two predictions of the next token. Evaluation and
// compression compare a changed model with the original one by it.

#include <span>

namespace neuronmm::ops {

// Returns KL(softmax(p) ‖ softmax(q)) in nats, which is
//   Σ softmax(p) (p - q) + log Σ exp(q) - log Σ exp(p).
// p and q are rows of logits of the same width, at least 1. The sums are in fp64, with exponentials
// that are exact to a unit in the last place. The result is not finite if a logit is not finite.
double kl_divergence(std::span<const float> p, std::span<const float> q);

}  // namespace neuronmm::ops
