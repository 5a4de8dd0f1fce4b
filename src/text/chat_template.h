#pragma once
// The chat formats of Llama-3 and Qwen3. Debian has no Jinja library for C++, so a model's template
// is recognised, not run: one that is neither of the two is refused with the reason.

#include <string>
#include <vector>

#include "base/result.h"
#include "text/byte_range.h"
#include "text/tokenizer.h"

namespace neuronmm::text {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

// A chat as the model reads it. Encode it with
//   {.add_special_tokens = false, .literal = prompt.said}
// because it holds its own BOS, and because what people say is text: "<|eot_id|>" typed by a user
// is ten characters and ends no turn.
struct ChatPrompt {
  std::string text;
  std::vector<ByteRange> said;  // the contents of the messages, not the template around them
};

// Ends where the assistant's answer begins when `add_generation_prompt`.
Result<ChatPrompt> apply_chat_template(const Tokenizer& tokenizer,
                                       const std::vector<ChatMessage>& messages,
                                       bool add_generation_prompt = true);

}  // namespace neuronmm::text
