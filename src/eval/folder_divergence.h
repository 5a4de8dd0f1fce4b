#pragma once
// Computes the divergence (divergence.h) of two model folders that are large compared with the
// machine's memory. Neither model is ever in memory as a whole.

#include <filesystem>
#include <span>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "eval/divergence.h"
#include "model/transformer.h"
#include "text/tokenizer/token_id.h"

namespace neuronmm::eval {

// Returns the values that sequence_divergence() and summarize() give. There must be at least one
// sequence.
//
// Memory holds one layer of one model at a time, then both LM heads and both models' logits of 256
// tokens. The hidden states of both models take 8·H bytes per token together (H: hidden_size).
// Errors: what check_sequence() finds, folders that cannot be loaded, and predictions that are
// NaN or infinite.
Result<DivergenceSummary> folder_divergence(const std::filesystem::path& dense,
                                            const std::filesystem::path& other,
                                            std::span<const std::vector<text::TokenId>> sequences,
                                            const ops::Backend& backend, Progress& progress);

}  // namespace neuronmm::eval
