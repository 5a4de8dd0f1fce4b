#pragma once
// Reads the bodies of Anthropic's Messages API, POST /v1/messages and POST
// /v1/messages/count_tokens, and translates them into a ChatRequest. prepared_generation.h and
// tokenizer_endpoints.h use it. Errors are recorded in the reader's RequestProblem, and the client
// is told the first one.

#include <string_view>

#include "serve/protocol/chat_request.h"

namespace neuronmm::serve {

// Return the fields of the two bodies.
const RequestTable& anthropic_table();
const RequestTable& anthropic_prompt_table();

// Parses the body of /v1/messages. An error names the first field that is wrong.
ApiResult<ChatRequest> parse_anthropic_request(std::string_view body);
ChatRequest read_anthropic_request(FieldReader& fields);
// Reads only what the prompt depends on: the conversation, the tools and the model's name.
ChatRequest read_anthropic_prompt(FieldReader& fields);

}  // namespace neuronmm::serve
