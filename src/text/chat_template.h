#pragma once
// Turns a conversation into the text that a model reads. The Jinja template of the model folder
// does the work, and the result is that of apply_chat_template in transformers. The chat,
// generation, serving and fine-tuning commands call it. text/jinja runs the templates.

#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/conversation.h"
#include "text/jinja/budget.h"
#include "text/tokenizer/tokenizer.h"
#include "text/unicode/byte_range.h"

namespace neuronmm::text {

// The prompt that a template makes of a conversation. Encode it with
//   {.add_special_tokens = false, .literal = prompt.from_messages}
// The template writes the BOS token itself. With `literal`, text that people wrote stays text:
// "<|eot_id|>" typed by a user is ten characters and does not end a turn.
struct ChatPrompt {
  std::string text;
  // The ranges of `text` that come from the conversation: contents, calls, tools, documents and
  // template variables, with their keys. Roles that are plain names are left out, because templates
  // make special tokens of them.
  std::vector<ByteRange> from_messages;
};

// Renders the template "tool_use" if the conversation has tools and the model has such a template,
// and "default" otherwise. `now` is the time that strftime_now shows. Fails if the model has no
// template, if the template does not parse, refuses the conversation (raise_exception) or exceeds
// the limits.
Result<ChatPrompt> apply_chat_template(const TokenizerConfig& config,
                                       const Conversation& conversation, std::time_t now,
                                       const jinja::Limits& limits = {});
// Renders the template with the current time.
Result<ChatPrompt> apply_chat_template(const Tokenizer& tokenizer,
                                       const Conversation& conversation);

}  // namespace neuronmm::text
