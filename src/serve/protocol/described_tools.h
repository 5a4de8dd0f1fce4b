#pragma once
// Tools for models whose chat template shows none, or has them called in a way that is not known
// here: they are described in words, and calls and their results become text. The words and tags
// are those of Hermes and Qwen, which more models have seen than any others.

#include "base/result.h"
#include "serve/protocol/json_body.h"
#include "text/conversation.h"

namespace neuronmm::serve {

// Calls of earlier answers as text between <tool_call> tags, results as the user's text between
// <tool_response> tags, one message for all that follow each other: templates like Llama 2's want
// user and assistant to take turns.
Json with_calls_as_text(const Json& messages);

// The same conversation with `tools` described at the end of the system message, which it gets if
// it has none, and with calls as text.
text::Conversation with_described_tools(const text::Conversation& conversation);
// The same with the description before the first message of the user, for templates that refuse
// the system's (Gemma's).
text::Conversation with_tools_told_by_user(const text::Conversation& conversation);

}  // namespace neuronmm::serve
