#pragma once
// An answer on standard output as it is made, and what is said of it beside.

#include <span>
#include <string>
#include <vector>

#include "commands.h"
#include "model/generate.h"
#include "text/tokenizer.h"

namespace neuronmm::apps {

struct StreamedAnswer {
  std::string text;  // as it was written, without the line's end
  model::Generation generation;
};

struct AnswerStream {
  std::vector<std::string> stop;        // the text ends before the first of these
  bool continues_prompt = false;        // else the answer is a text of its own, as in a chat
  model::PromptCache* cache = nullptr;  // of a conversation
};

// Tokens are written as they come, but never a part of a character, nor what may begin a stop.
// Where loops are stoppable (base/parallel.h) an interrupt ends the answer at once, without
// timings.
Result<StreamedAnswer> stream_answer(const model::Transformer& transformer,
                                     const text::Tokenizer& tokenizer,
                                     std::span<const text::TokenId> prompt,
                                     const model::GenerateOptions& options,
                                     const AnswerStream& how);

// One line on standard error: standard output holds nothing but the text.
void print_timings(size_t prompt_tokens, const model::Generation& generation,
                   const DeviceOptions& device);

}  // namespace neuronmm::apps
