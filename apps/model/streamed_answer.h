#pragma once
// Writes an answer to standard output while the model makes it, and its timings to standard error.
// `generate` and `chat` use it.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commands.h"
#include "model/generate.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::apps {

// An answer that was written.
struct StreamedAnswer {
  std::string text;  // the text as it was written, without the final newline
  model::Generation generation;
};

// How an answer is written.
struct StreamOptions {
  std::vector<std::string> stop;  // the text ends before the first of these strings
  // Whether the answer continues the text of the prompt. In a chat it is a text of its own.
  bool continues_prompt = false;
  model::PromptCache* cache = nullptr;        // the cache of the conversation, or null
  model::Speculation* speculation = nullptr;  // the draft, or null
};

// Generates an answer and writes each token as it comes. Text is held back while it is a part of a
// character or may be the begin of a stop string. If loops are stoppable (base/parallel.h), an
// interrupt ends the answer at once, and the result has no timings. Throws std::system_error if
// standard output cannot be written.
Result<StreamedAnswer> stream_answer(const model::Transformer& transformer,
                                     const text::Tokenizer& tokenizer,
                                     std::span<const text::TokenId> prompt,
                                     const model::GenerateOptions& options,
                                     const StreamOptions& stream_options);

// Advice for a user whose answer was cut, as the end of a sentence.
struct NextSteps {
  std::string_view context_full, limit;
};
// Prints a line on standard error if the answer ends at its limit, or because the context of
// `context_tokens` tokens is full.
void print_cut(const model::Generation& generation, int64_t context_tokens, const NextSteps& next);

// Prints one line of timings on standard error. Standard output holds only the text of the answer.
void print_timings(size_t prompt_tokens, const model::Generation& generation,
                   const DeviceOptions& device);

}  // namespace neuronmm::apps
