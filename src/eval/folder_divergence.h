#pragma once
// The divergence (divergence.h) of two model folders, for models that are large for the machine:
// neither is ever in memory as a whole.

#include <filesystem>
#include <span>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "eval/divergence.h"
#include "model/transformer.h"
#include "text/token_id.h"

namespace neuronmm::eval {

// There is at least one sequence. The same values as token_divergences finds. In memory: a layer of
// one of them, then both LM heads and 256 tokens' logits of both; 8·H bytes per token of each.
// Errors: what token_divergences finds, and what cannot be loaded; predictions of NaN or infinity.
Result<DivergenceSummary> folder_divergence(const std::filesystem::path& dense,
                                            const std::filesystem::path& other,
                                            std::span<const std::vector<text::TokenId>> sequences,
                                            const ops::Backend& backend, Progress& progress);

}  // namespace neuronmm::eval
