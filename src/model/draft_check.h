#pragma once
// Checks that a model can be the draft of another one (draft.h). Error messages name the folders
// and say what differs.

#include <filesystem>

#include "base/result.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::model {

// Fails unless both tokenizers have the same tokens, because proposals are token ids. The message
// names the first token that differs.
Status check_same_tokens(const text::Tokenizer& model, const std::filesystem::path& model_folder,
                         const text::Tokenizer& draft, const std::filesystem::path& draft_folder);

// Fails if the draft's weights have more bytes than the model's. Bytes decide, not parameters: they
// are what a token takes to compute, and the 4-bit form of a model is a draft of its bf16 form.
Status check_not_larger(const io::Checkpoint& model, const io::Checkpoint& draft);

// Fails if the draft turns long sequences by another RoPE table than short ones. Its cache would
// have to be computed anew in the middle of a text.
Status check_one_rope_table(const io::ModelConfig& draft,
                            const std::filesystem::path& draft_folder);

}  // namespace neuronmm::model
