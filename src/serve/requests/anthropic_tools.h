#pragma once
// Reads the fields "tools" and "tool_choice" of a request to Anthropic's Messages API.
// anthropic_request.cc is the only user. Errors are recorded in the FieldReader's RequestProblem.

#include "serve/requests/anthropic_messages.h"
#include "serve/requests/chat_tools.h"

namespace neuronmm::serve {

// Reads the tools that the model may call. All of them run at the client; the server runs none. A
// tool with "defer_loading" is included only if a block of `conversation` adds it. Any other tool
// is included unless a block removes it.
ToolFields read_anthropic_tools(FieldReader& fields, const AnthropicConversation& conversation);

}  // namespace neuronmm::serve
