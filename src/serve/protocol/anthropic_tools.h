#pragma once
// tools and tool_choice as Anthropic's Messages API has them.

#include "serve/protocol/anthropic_messages.h"
#include "serve/protocol/chat_tools.h"

namespace neuronmm::serve {

// Tools of the client: the server runs none. Of those that are to be loaded later the ones that a
// block of `said` brings in, of the others all that no block takes away.
ToolFields read_anthropic_tools(FieldReader& fields, const AnthropicConversation& said);

}  // namespace neuronmm::serve
