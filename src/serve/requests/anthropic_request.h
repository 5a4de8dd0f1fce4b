#pragma once
// Reads the bodies of Anthropic's Messages API: POST /v1/messages and POST
// /v1/messages/count_tokens. Such a body describes a chat under other field names, so the result is
// a ChatRequest. prepared_generation.cc and tokenizer_endpoints.cc use these functions.

#include <string_view>

#include "serve/requests/chat_request.h"

namespace neuronmm::serve {

// Return the tables of the fields of /v1/messages and of /v1/messages/count_tokens.
const RequestTable& anthropic_table();
const RequestTable& anthropic_prompt_table();

// Parses a body of POST /v1/messages. docs/reference/serving_protocol.md lists the fields. An error
// names the first wrong field.
ApiResult<ChatRequest> parse_anthropic_request(std::string_view body);
// Reads the same fields. Errors are recorded in fields.problem().
ChatRequest read_anthropic_request(FieldReader& fields);
// Reads only the fields that the prompt depends on: the conversation, the tools and the model's
// name. Errors are recorded in fields.problem().
ChatRequest read_anthropic_prompt(FieldReader& fields);

}  // namespace neuronmm::serve
