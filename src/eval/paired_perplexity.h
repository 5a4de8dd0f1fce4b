#pragma once
// Measures a model's perplexity together with that of the dense model it was made from, on the same
// chunks. The difference shows what compression has changed, without what makes a text hard for
// both.

#include "base/progress.h"
#include "eval/divergence.h"
#include "eval/perplexity.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::eval {

// Checks that the predictions of two models mean the same: every id is the same piece of text, and
// both tokenizers encode `text` equally. Errors name the first difference. `dense_name` and
// `other_name` name the tokenizers in messages.
Status check_same_tokens(const text::Tokenizer& dense, const std::string& dense_name,
                         const text::Tokenizer& other, const std::string& other_name,
                         std::string_view text);

// The perplexity of a model and its divergence from the dense model.
struct PairedPerplexity {
  PerplexityReport report;       // of the other model: the same bits as perplexity() gives
  DivergenceSummary divergence;  // from the dense model; its windows are the chunks
};

// Compares both models chunk by chunk. The other model keeps keys and values in `cache`. The
// report's `seconds` are those of the other model alone. Errors: those of perplexity() and of
// check_comparable(), and a divergence that is not finite.
Result<PairedPerplexity> paired_perplexity(const model::Transformer& dense,
                                           const model::Transformer& other,
                                           std::span<const text::TokenId> tokens, int64_t context,
                                           Progress& progress, DType cache = DType::kF32);

}  // namespace neuronmm::eval
