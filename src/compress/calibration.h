#pragma once
// Runs calibration text through the model, layer by layer, and keeps the Gram matrices. In memory
// at any time: the hidden states of all sequences, one layer's packed weights, two Gram matrices.
//
// Work files, so that a stopped run goes on where it was: gram-0000N.safetensors per finished layer
// and calibration.safetensors, the state between two sequences. Both are exact, so that a resumed
// run ends with the same bytes.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "compress/gram.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "ops/backend.h"
#include "text/tokenizer.h"

namespace neuronmm::compress {

// As SVD-LLM and GPTQ sample: 64 sequences of 2048 tokens are 64 times the hidden size of
// Llama-3.2-1B, beyond which the held-out loss improves by less than 2 %.
inline constexpr int64_t kSequenceTokens = 2048;
inline constexpr int64_t kDefaultCalibrationTokens = 64 * kSequenceTokens;

// Every sequence is a fresh context; all have the same length.
struct CalibrationSequences {
  std::vector<std::vector<text::TokenId>> sequences;
  GramOrigin origin;
  bool few = false;  // fewer than ten tokens per dimension of the Gram matrix

  int64_t length() const { return static_cast<int64_t>(sequences.at(0).size()); }
};

// Encodes the text once and takes max_tokens of it (all, if there are fewer) as the smallest number
// of equal sequences of at most min(2048, max_position_embeddings) tokens, evenly spread over the
// text. Refused: fewer tokens than hidden_size, since the Gram matrix of such a text cannot have
// full rank.
Result<CalibrationSequences> calibration_sequences(const text::Tokenizer& tokenizer,
                                                   std::string_view text,
                                                   const std::string& text_name, int64_t max_tokens,
                                                   const io::ModelConfig& config);

std::filesystem::path layer_gram_path(const std::filesystem::path& work, int64_t layer);

// Leaves layer_gram_path(work, layer) for every layer. Asks interrupted() between sequences.
Status calibrate(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
                 const ops::Backend& backend, const CalibrationSequences& text,
                 const std::filesystem::path& work, Progress& progress);

}  // namespace neuronmm::compress
