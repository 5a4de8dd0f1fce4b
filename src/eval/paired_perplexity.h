#pragma once
// A model's perplexity beside the dense model that it was made of, on the same chunks: what the
// compression has changed, without what makes a text hard for both.

#include "eval/divergence.h"
#include "eval/perplexity.h"
#include "text/tokenizer.h"

namespace neuronmm::eval {

// Two models whose predictions mean the same: every id is the same piece of text, and `text` has
// the same tokens. Errors name the first that differs; `dense_name` and `other_name` are what they
// call the tokenizers.
Status check_same_tokens(const text::Tokenizer& dense, const std::string& dense_name,
                         const text::Tokenizer& other, const std::string& other_name,
                         std::string_view text);

struct PairedPerplexity {
  PerplexityReport report;       // of the other model: the bits that perplexity() gives
  DivergenceSummary divergence;  // from the dense one; its windows are the chunks
};

// Chunk by chunk; `seconds` of the report are the other model's alone. Errors: those of
// perplexity() and of check_comparable, a divergence that is not finite.
Result<PairedPerplexity> paired_perplexity(const model::Transformer& dense,
                                           const model::Transformer& other,
                                           std::span<const text::TokenId> tokens, int64_t context,
                                           Progress& progress);

}  // namespace neuronmm::eval
