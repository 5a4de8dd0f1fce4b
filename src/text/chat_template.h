#pragma once
// Conversations as a model reads them: by the Jinja template of its folder, as transformers'
// apply_chat_template renders it (text/jinja).

#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/byte_range.h"
#include "text/conversation.h"
#include "text/jinja/budget.h"
#include "text/tokenizer.h"

namespace neuronmm::text {

// A chat as the model reads it. Encode it with
//   {.add_special_tokens = false, .literal = prompt.said}
// because it holds its own BOS, and because what people say is text: "<|eot_id|>" typed by a user
// is ten characters and ends no turn.
struct ChatPrompt {
  std::string text;
  // What came from the conversation: contents, calls, tools, documents and template variables, with
  // their keys. Not roles that are plain names, which templates make special tokens of.
  std::vector<ByteRange> said;
};

// The template "tool_use" if there are tools and the model has one, else "default". Errors: a
// template that is none, one that refuses the conversation (raise_exception) or takes too much.
// `now`: what strftime_now shows.
Result<ChatPrompt> apply_chat_template(const TokenizerConfig& config,
                                       const Conversation& conversation, std::time_t now,
                                       const jinja::Limits& limits = {});
// At the time of the clock.
Result<ChatPrompt> apply_chat_template(const Tokenizer& tokenizer,
                                       const Conversation& conversation);

}  // namespace neuronmm::text
