#pragma once
// log softmax(logits)[target], the one number that perplexities and choices are made of.

#include <span>

#include "text/tokenizer.h"

namespace neuronmm::eval {

// Summed in fp64 from exponentials in fp32, whose relative errors of 2^-23 change the result by at
// most that: less than the rounding of the logits themselves. NaN where any logit is NaN, and where
// the largest is infinite.
double log_probability(std::span<const float> logits, text::TokenId target);

}  // namespace neuronmm::eval
