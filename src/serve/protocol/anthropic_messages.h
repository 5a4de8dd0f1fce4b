#pragma once
// The messages of Anthropic's Messages API, whose contents are blocks, as the messages of a chat.

#include <set>
#include <string>

#include "serve/protocol/field_reader.h"

namespace neuronmm::serve {

struct AnthropicConversation {
  Json messages = Json::array();  // of a chat
  bool continues = false;         // the answer goes on with the last one
  // Tools by name that blocks have brought in, or taken away.
  std::set<std::string, std::less<>> added_tools = {}, removed_tools = {};
};

// "system" and "messages". Messages of one role that follow one another become one, and results of
// calls messages of their own. What the system says later on is a part of the user's message before
// it, because most templates know one system message. What is wrong is recorded in `fields`, of the
// body.
AnthropicConversation read_anthropic_messages(FieldReader& fields);

}  // namespace neuronmm::serve
