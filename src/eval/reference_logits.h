#pragma once
// What an accuracy check compares with: token sequences and the logits that the reference gives at
// their positions, recorded in a file or made by a second model.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "base/tensor.h"
#include "model/transformer.h"

namespace neuronmm::eval {

struct ReferenceSequence {
  std::vector<text::TokenId> tokens;
  int64_t first_position = 0;  // logits row i belongs to position first_position + i ...
  Matrix logits;               // [tokens.size() - first_position, vocab_size]
};
using ReferenceLogits = std::vector<ReferenceSequence>;

// Logits of positions first_position ... of `tokens`, each seeing the given tokens before it
// (teacher forcing). Row i is position first_position + i.
Matrix position_logits(const model::Transformer& transformer, std::span<const text::TokenId> tokens,
                       int64_t first_position);

// {"sequences": [[id ...] ...], "logits": [[[float ...] ...] ...]}: logits of every position. Other
// keys are ignored. `source` is what messages call the text; sequences must fit `config`'s
// vocabulary and max_position_embeddings.
Result<ReferenceLogits> parse_reference_logits(std::string_view json_text,
                                               const std::string& source,
                                               const io::ModelConfig& config);

// The reference's own greedy continuations by `new_tokens` tokens (on past end-of-text tokens), and
// the logits that chose them: positions prompt.size() - 1 and later. Errors: an empty prompt,
// lengths beyond max_position_embeddings, ids outside the vocabulary, an interrupt.
Result<ReferenceLogits> record_reference_logits(const model::Transformer& reference,
                                                std::span<const std::vector<text::TokenId>> prompts,
                                                int64_t new_tokens, Progress& progress);

}  // namespace neuronmm::eval
