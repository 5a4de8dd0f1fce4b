#pragma once
// Lets models use tools although their chat template cannot show them, or shows calls in a syntax
// that is unknown here (ToolSyntax::kDescribed). The tools are described in words in the prompt,
// and calls and their results become text. The words and tags are those of Hermes and Qwen, which
// more models have seen in training than any others. accepted_prompt.cc uses these functions.

#include "base/result.h"
#include "serve/requests/json_body.h"
#include "text/conversation.h"

namespace neuronmm::serve {

// Returns the messages with all earlier calls and results as text. Calls become text between
// <tool_call> tags. Results become text of the user between <tool_response> tags. Consecutive
// results share one message, because templates such as Llama 2's demand that user and assistant
// alternate.
Json with_calls_as_text(const Json& messages);

// Returns the conversation with calls as text and with its tools described at the end of the system
// message. The system message is added if there is none.
text::Conversation with_described_tools(const text::Conversation& conversation);

}  // namespace neuronmm::serve
