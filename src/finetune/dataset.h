#pragma once
// Reads the training data of a fine-tuning and returns it as token sequences. The data may be
// instructions with responses (the format of alpaca.json), chats, documents or plain text.
// `finetune` reads its training and validation files with it. Malformed files end in an error that
// names the file.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/model_config.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::finetune {

// A token sequence and the part of it that is learned. The loss is over tokens[scored_from ...],
// and each of them is predicted from the tokens before it. scored_from >= 1.
struct Example {
  std::vector<text::TokenId> tokens;
  int64_t scored_from = 1;

  int64_t length() const { return static_cast<int64_t>(tokens.size()); }
  int64_t scored_tokens() const { return length() - scored_from; }
};

// All sequences of a file, and how many records did not fit.
struct Dataset {
  std::vector<Example> examples;
  int64_t truncated = 0;  // the number of examples that were longer than the cut-off
  int64_t skipped = 0;    // the number of examples whose prompt alone reaches the cut-off
};

// Reads `content` as the ending of `path` says. NAME.json is a list of records
// (text/training_records.h), NAME.jsonl has one record per line, and any other file is text.
//
// - Instructions are encoded as alpaca-lora encodes them: prompt and response together, cut at
//   `cutoff` tokens. The end-of-sequence token follows where it fits. The loss is on what follows
//   the prompt's tokens.
// - Chats are written by the model's template and cut. The loss is on everything from the
//   assistant's first answer on.
// - Text is encoded once and cut into sequences of `cutoff` tokens, of which the last may be
//   shorter. The loss is on all tokens except the first of each sequence.
// - Documents are joined one after the other, and then treated like text.
//
// Errors name the file and, for records, the line. The causes are malformed JSON, a field that is
// missing or no string, a chat that has no answer or that the template refuses, a file without
// examples, and token ids outside the model's vocabulary.
Result<Dataset> read_dataset(std::string_view content, const std::filesystem::path& path,
                             const text::Tokenizer& tokenizer, const io::ModelConfig& config,
                             int64_t cutoff);

}  // namespace neuronmm::finetune
