#pragma once
// Turns the prompts of requests into tokens: chats by the model's chat template, texts directly.
// prepared_generation.cc and tokenizer_endpoints.cc use these functions.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/protocol/prompt_reasoning.h"
#include "serve/protocol/served_model.h"
#include "serve/requests/llama_cpp_request.h"
#include "serve/requests/text_completion_request.h"
#include "text/conversation.h"

namespace neuronmm::serve {

// The prompt of a chat, as text and as tokens.
struct ChatPromptTokens {
  std::string text;
  std::vector<TokenId> tokens;
  PromptReasoning reasoning = {};
};

// Returns the error 400 for a token id that the model does not have.
ApiError outside_vocabulary(const ServedModel& model, TokenId id, const std::string& param);

// Applies the model's chat template to a conversation. The template writes the token for the
// beginning of a text itself; `add_special_tokens` adds another one. Special tokens inside messages
// are treated as plain text, so that users cannot inject them. If the template does not know the
// role "developer", that role becomes "system". If the template refuses the conversation, other
// forms of it are tried (accepted_prompt.h), and an error is returned if it refuses them all.
// `calls` is the syntax that the answer's calls will have. If the template shows calls between
// other marks, the prompt describes the tools in words (described_tools.h).
ApiResult<ChatPromptTokens> chat_prompt(const ServedModel& model,
                                        const text::Conversation& conversation,
                                        bool add_special_tokens,
                                        std::optional<ToolSyntax> calls = {});

// Returns the tokens of a text. Special tokens in the text are recognized. With
// `add_special_tokens`, there is one token for the beginning of a text, even if the text has its
// own. An error names `param`, as in the functions below.
ApiResult<std::vector<TokenId>> text_prompt(const ServedModel& model, std::string_view text,
                                            bool add_special_tokens,
                                            const std::string& param = "prompt");
// Returns the tokens of a text or tokens. Returns an error for a token outside the vocabulary.
ApiResult<std::vector<TokenId>> completion_prompt(const ServedModel& model,
                                                  const TextOrTokens& prompt,
                                                  bool add_special_tokens,
                                                  const std::string& param = "prompt");

// Returns the tokens of a text in which special tokens are not recognized, since it is somebody's
// code.
ApiResult<std::vector<TokenId>> code_tokens(const ServedModel& model, std::string_view text,
                                            const std::string& param);

// Returns the tokens of texts and ids. Special tokens in the texts are recognized with
// `parse_special`. With `add_begin`, a text that comes first gets a token for its beginning.
ApiResult<std::vector<TokenId>> mixed_tokens(const ServedModel& model, const MixedText& mixed,
                                             const std::string& param, bool parse_special,
                                             bool add_begin);

// Checks that the prompt is not empty and leaves space for one token in the context. With
// `max_tokens` 0 no such space is needed. `param` names the field that the prompt came from.
ApiResult<bool> check_prompt(const ServedModel& model, const std::vector<TokenId>& prompt,
                             std::optional<int64_t> max_tokens, const std::string& param);

}  // namespace neuronmm::serve
