#pragma once
// The body of POST /v1/messages, Anthropic's Messages API, and of POST /v1/messages/count_tokens: a
// chat in other words.

#include <string_view>

#include "serve/protocol/chat_request.h"

namespace neuronmm::serve {

// The fields of both bodies.
const RequestTable& anthropic_table();
const RequestTable& anthropic_prompt_table();

// docs/serving_protocol.md has the fields. Errors name the first one that is wrong.
ApiResult<ChatRequest> parse_anthropic_request(std::string_view body);
// What is wrong is the reader's problem.
ChatRequest read_anthropic_request(FieldReader& fields);
// Of it what the prompt is made of: conversation, tools, and the model's name.
ChatRequest read_anthropic_prompt(FieldReader& fields);

}  // namespace neuronmm::serve
