#pragma once
// The penalty for tokens that would continue a repetition of the text so far ("don't repeat
// yourself", DRY), with the meaning of the fields dry_* of llama.cpp. Sampler applies it.

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "text/tokenizer/token_id.h"

namespace neuronmm::model {

using text::TokenId;

// Texts at which every repetition ends, as tokens. A text may begin inside a token, so each token
// with which it may begin has the lists of tokens that may follow. An empty list means that the
// token contains the whole text.
struct SequenceBreakers {
  std::unordered_map<TokenId, std::vector<std::vector<TokenId>>> tails_of_head = {};
};

// The settings of the penalty. If the last n tokens of the text, with n >= allowed_length, occurred
// before, then the logit of the token that followed them there is lowered by multiplier * base ^ (n
// - allowed_length). The longest such repetition counts.
struct DryOptions {
  double multiplier = 0.0;  // 0 turns the penalty off
  double base = 1.75;
  int64_t allowed_length = 2;
  int64_t last_n = -1;  // the number of tokens of the text that are looked at; -1 means all
  std::shared_ptr<const SequenceBreakers> breakers = nullptr;  // null if there are none

  bool active() const { return multiplier != 0.0 && last_n != 0; }
};

// Lowers the logits. `text` is the prompt with the answer so far. The time is linear in the length
// of the text if the tails of the breakers are short.
void penalise_repeated_sequences(std::span<double> logits, std::span<const TokenId> text,
                                 const DryOptions& options);

}  // namespace neuronmm::model
