#pragma once
// The input and the result of one forward pass of a Transformer.

#include <optional>
#include <span>
#include <vector>

#include "base/tensor.h"
#include "ops/kv_cache.h"
#include "ops/log_sum.h"
#include "ops/wanted_logits.h"
#include "text/tokenizer/token_id.h"

namespace neuronmm::model {

using text::TokenId;

// The tokens of a sequence after which logits are wanted: none, the last one, or all.
enum class Logits { kNone, kLast, kAll };
// The tokens of a sequence whose hidden states are wanted: what the last layer and the final norm
// make of them.
enum class HiddenStates { kNone, kLast, kAll };

// The next tokens of one sequence (ids < vocab_size, at least one), and the cache that holds the
// tokens before them.
struct SequenceTokens {
  std::span<const TokenId> tokens;
  ops::KvCache* cache = nullptr;
  Logits logits = Logits::kLast;
  // The values that predict() must return of each row of logits. If empty, it returns all.
  std::vector<ops::WantedLogits> wanted = {};
  HiddenStates hidden = HiddenStates::kNone;
};

// The result of predict(): logits [rows, vocab_size] and hidden states [rows, hidden_size], both
// sequence by sequence. Only logits that nobody wanted may be missing (ops::kUnwantedLogit).
struct Predictions {
  Matrix logits;
  // The log sums of rows that are incomplete (ops::Linear::apply_wanted). Empty if none is.
  std::vector<std::optional<ops::LogSum>> log_sums = {};
  Matrix hidden = {};

  std::span<const float> row(int64_t i) const {
    return {logits.row(i), static_cast<size_t>(logits.columns())};
  }
  // Returns nothing if row i is complete, so that its log sum can be computed.
  std::optional<ops::LogSum> log_sum(int64_t i) const {
    return log_sums.empty() ? std::nullopt : log_sums[static_cast<size_t>(i)];
  }
};

}  // namespace neuronmm::model
