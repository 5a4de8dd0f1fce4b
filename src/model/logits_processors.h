#pragma once
// What changes logits before one of them is chosen. All leave out ids that the logits do not have.

#include <span>

#include "base/result.h"
#include "text/token_id.h"

namespace neuronmm::model {

using text::TokenId;

struct LogitBias {
  TokenId id = 0;
  double bias = 0.0;
};

// An error that names the first id outside [0, vocab_size).
Status check_biases(std::span<const LogitBias> biases, int64_t vocab_size);

// logits[id] += bias; biases of one id add up (OpenAI's logit_bias).
void add_biases(std::span<double> logits, std::span<const LogitBias> biases);

// Of every token of the prompt or the answer, once however often it is there: l > 0 ? l / p : l * p
// (CTRL, arXiv 1909.05858, section 4.1).
void penalise_repetition(std::span<double> logits, std::span<const TokenId> prompt,
                         std::span<const TokenId> generated, double penalty);

// l - penalty, for every time that the token was generated (OpenAI's frequency_penalty).
void penalise_frequency(std::span<double> logits, std::span<const TokenId> generated,
                        double penalty);

// l - penalty, if the token was generated at all (OpenAI's presence_penalty).
void penalise_presence(std::span<double> logits, std::span<const TokenId> generated,
                       double penalty);

}  // namespace neuronmm::model
