#pragma once
// Reference logits in files. As safetensors, for each sequence N from 0:
//   sequences.N  I64 or I32 [tokens]              token ids
//   logits.N     a float dtype [rows, vocab_size]  of its last `rows` positions
// Other tensors are ignored. Three texts of 512 tokens at a vocabulary of 32 thousand are 200 MB of
// F32, where the JSON form of reference_logits.h takes 712.

#include <filesystem>

#include "base/result.h"
#include "eval/reference_logits.h"

namespace neuronmm::eval {

// *.safetensors, or JSON. Sequences must fit `config`'s vocabulary and max_position_embeddings.
Result<ReferenceLogits> read_reference_logits(const std::filesystem::path& path,
                                              const io::ModelConfig& config);

// I64 and F32. The file appears whole or not at all.
Status write_reference_logits(const std::filesystem::path& path, const ReferenceLogits& reference);

}  // namespace neuronmm::eval
