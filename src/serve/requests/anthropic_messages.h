#pragma once
// Reads the messages of a request to Anthropic's Messages API (POST /v1/messages) and converts them
// to the messages of a chat, which chat templates understand. In that API the content of a message
// is a list of blocks. anthropic_request.cc is the only user. Errors are recorded in the
// FieldReader's RequestProblem.

#include <set>
#include <string>

#include "serve/requests/field_reader.h"

namespace neuronmm::serve {

// The messages and what they say about tools.
struct AnthropicConversation {
  Json messages = Json::array();  // in the format of chat completions
  bool continues = false;         // whether the answer continues the last message
  // Names of the tools that blocks of the messages have added or removed.
  std::set<std::string, std::less<>> added_tools = {}, removed_tools = {};
};

// Reads the fields "system" and "messages" of a request's body. Consecutive messages of one role
// become one message, and each result of a tool call becomes a message of its own. A system message
// after the first message is added to a message of the user, because most templates accept only one
// system message, at the beginning. Errors are recorded in `fields`.
AnthropicConversation read_anthropic_messages(FieldReader& fields);

}  // namespace neuronmm::serve
