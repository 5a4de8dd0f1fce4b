#pragma once
// The chat formats of Llama-3 and Qwen3. Debian has no Jinja library for C++, so a model's template
// is recognised, not run: one that is neither of the two is refused with the reason.

#include <string>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace neuronmm::text {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

// The prompt text, ending where the assistant's answer begins when `add_generation_prompt`. Encode
// it with add_special_tokens = false: it holds its own BOS.
Result<std::string> apply_chat_template(const Tokenizer& tokenizer,
                                        const std::vector<ChatMessage>& messages,
                                        bool add_generation_prompt = true);

}  // namespace neuronmm::text
