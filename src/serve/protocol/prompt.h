#pragma once
// Prompts of requests as tokens.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/protocol/served_model.h"
#include "serve/protocol/text_completion_request.h"
#include "text/conversation.h"

namespace neuronmm::serve {

// Where an answer begins that thinks aloud between <think> and </think>.
enum class Thinking {
  kNone,      // the model does not, or the prompt has closed its thoughts
  kOptional,  // the answer may begin with <think>
  kOpened,    // the prompt has opened them
};

struct ChatPromptTokens {
  std::string text;
  std::vector<TokenId> tokens;
  Thinking thinking = Thinking::kNone;
};

// By the model's chat template, which brings the beginning of text itself; another one is not added
// unless `add_special_tokens` asks for it. What people say is text: special tokens in it are none.
// The role "developer" is "system" for templates that do not know it.
ApiResult<ChatPromptTokens> chat_prompt(const ServedModel& model,
                                        const text::Conversation& conversation,
                                        bool add_special_tokens);

// A text in which special tokens are read; one beginning of text, also where the text has its own.
ApiResult<std::vector<TokenId>> text_prompt(const ServedModel& model, std::string_view text,
                                            bool add_special_tokens);
ApiResult<std::vector<TokenId>> completion_prompt(const ServedModel& model,
                                                  const TextOrTokens& prompt,
                                                  bool add_special_tokens);

// There is room for one token behind it, unless none is asked for (`max_tokens` 0). `param` names
// the field that the prompt came from.
ApiResult<bool> check_prompt(const ServedModel& model, const std::vector<TokenId>& prompt,
                             std::optional<int64_t> max_tokens, const std::string& param);

}  // namespace neuronmm::serve
