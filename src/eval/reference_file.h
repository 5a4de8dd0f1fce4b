#pragma once
// Reads and writes reference logits for the accuracy check. A safetensors file has these tensors
// for each sequence N from 0:
//   sequences.N  I64 or I32 [tokens]              token ids
//   logits.N     a float dtype [rows, vocab_size]  logits of its last `rows` positions
// Other tensors are ignored. The file is about a quarter as large as the JSON form of
// reference_logits.h.

#include <filesystem>

#include "base/result.h"
#include "eval/reference_logits.h"

namespace neuronmm::eval {

// Reads a file that ends in .safetensors, or any other file as JSON. Sequences must fit `config`'s
// vocabulary and max_position_embeddings. Errors name the file and the tensor or key.
Result<ReferenceLogits> read_reference_logits(const std::filesystem::path& path,
                                              const io::ModelConfig& config);

// Writes ids as I64 and logits as F32. After a failure there is no file.
Status write_reference_logits(const std::filesystem::path& path, const ReferenceLogits& reference);

}  // namespace neuronmm::eval
