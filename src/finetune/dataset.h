#pragma once
// Training data as token sequences: instructions with responses (the format of alpaca.json), chats,
// documents, or plain text.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/model_config.h"
#include "text/tokenizer.h"

namespace neuronmm::finetune {

// The loss is over tokens[scored_from ...], each predicted from those before it. scored_from >= 1.
struct Example {
  std::vector<text::TokenId> tokens;
  int64_t scored_from = 1;

  int64_t length() const { return static_cast<int64_t>(tokens.size()); }
  int64_t scored_tokens() const { return length() - scored_from; }
};

struct Dataset {
  std::vector<Example> examples;
  int64_t truncated = 0;  // examples that were longer than the cut-off
  int64_t skipped = 0;    // examples whose prompt alone reaches the cut-off
};

// `path` decides: NAME.json is a list of records (text/training_records.h), NAME.jsonl has one per
// line; everything else is text.
//
// Instructions, as alpaca-lora encodes them: prompt and response are encoded together and cut at
// `cutoff` tokens, the end-of-sequence token follows where it fits, and the loss is on what follows
// the tokens of the prompt. Chats are written by the model's template and cut; the loss is on all
// from the assistant's first answer on. Text is encoded once and cut into sequences of `cutoff`
// tokens (the last may be shorter), with the loss on all of them, and so are documents, one behind
// the other.
//
// Errors name the file and, for instructions, the line of the record: malformed JSON, a field that
// is missing or no string, a chat that has no answer or that the template refuses, no examples,
// token ids outside the model's vocabulary.
Result<Dataset> read_dataset(std::string_view content, const std::filesystem::path& path,
                             const text::Tokenizer& tokenizer, const io::ModelConfig& config,
                             int64_t cutoff);

}  // namespace neuronmm::finetune
