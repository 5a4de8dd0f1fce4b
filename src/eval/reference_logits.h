#pragma once
// Token sequences and the logits that a reference gives at their positions, for the accuracy check
// (accuracy_check.h) and for exports. They come from a file or from a second model.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "base/tensor.h"
#include "model/transformer.h"

namespace neuronmm::eval {

// A sequence and the reference's logits.
struct ReferenceSequence {
  std::vector<text::TokenId> tokens;
  int64_t first_position = 0;  // row i of `logits` belongs to position first_position + i
  Matrix logits;               // [tokens.size() - first_position, vocab_size]
};
using ReferenceLogits = std::vector<ReferenceSequence>;

// Returns the logits of the positions from first_position on, each after the given tokens before it
// (teacher forcing). Row i is position first_position + i.
Matrix position_logits(const model::Transformer& transformer, std::span<const text::TokenId> tokens,
                       int64_t first_position);

// Parses {"sequences": [[id ...] ...], "logits": [[[float ...] ...] ...]} with logits of every
// position. Other keys are ignored. `source` names the text in messages, which also name the place
// in it. Sequences must fit `config`'s vocabulary and max_position_embeddings.
Result<ReferenceLogits> parse_reference_logits(std::string_view json_text,
                                               const std::string& source,
                                               const io::ModelConfig& config);

// Records the reference's own greedy continuations by `new_tokens` tokens (end-of-text tokens do
// not stop them) and the logits that chose them: positions prompt.size() - 1 and later. Errors: an
// empty prompt, lengths beyond max_position_embeddings, ids outside the vocabulary, an interrupt.
Result<ReferenceLogits> record_reference_logits(const model::Transformer& reference,
                                                std::span<const std::vector<text::TokenId>> prompts,
                                                int64_t new_tokens, Progress& progress);

}  // namespace neuronmm::eval
