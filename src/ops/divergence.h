#pragma once
// How far one prediction is from another.

#include <span>

namespace neuronmm::ops {

// KL(softmax(p) ‖ softmax(q)) = Σ softmax(p) (p - q) + log Σ exp(q) - log Σ exp(p), nats, of two
// rows of logits of one width, at least 1. In fp64, exponentials to a unit in the last place. Not
// finite where a logit is not.
double kl_divergence(std::span<const float> p, std::span<const float> q);

}  // namespace neuronmm::ops
