#pragma once
// What a load test asks.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "text/tokenizer.h"

namespace neuronmm::load {

struct LoadPrompt {
  std::string text;         // of a text completion, or what the user says in a chat
  nlohmann::json messages;  // of a chat; null: the text is its one message
  int64_t tokens = 0;       // as our tokenizer counts them; of messages, those of their contents
  int64_t max_tokens = 0;   // of the answer
};

struct PromptSettings {
  int64_t count = 0;
  int64_t prompt_tokens = 128, new_tokens = 64;
  // Lengths are drawn evenly from n * (1 - spread) to n * (1 + spread); 0 <= spread < 1.
  double spread = 0.0;
  int64_t prefix_tokens = 0;  // with which all prompts begin, besides
  uint64_t seed = 0;
};

// Random tokens as text which the tokenizer turns into the wanted number of tokens again, those
// that it adds by itself (a beginning of text) included; with few tokenizers it may be off by one
// or two. An error where the vocabulary has no tokens that are texts.
Result<std::vector<LoadPrompt>> random_prompts(const text::Tokenizer& tokenizer,
                                               const PromptSettings& settings);

// Those of a file: lines of text, or, where the first line begins with "{", one JSON object a line
// with "prompt" or "messages" and perhaps "max_tokens" (else new_tokens). From the first again
// where there are fewer than `count`. Behind the common prefix, if there is one. Errors name
// `source` and the line.
Result<std::vector<LoadPrompt>> file_prompts(std::string_view text, const std::string& source,
                                             const text::Tokenizer& tokenizer,
                                             const PromptSettings& settings);

}  // namespace neuronmm::load
