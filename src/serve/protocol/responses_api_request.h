#pragma once
// Reads the body of POST /v1/responses, OpenAI's Responses API, and translates it into a
// ChatRequest. The server stores no responses, so fields that refer to earlier ones are refused.
// prepared_generation.h uses the result. Errors are recorded in the reader's RequestProblem, and
// the client is told the first one.

#include <string_view>

#include "serve/protocol/chat_request.h"

namespace neuronmm::serve {

// A chat request, and the fields that its response repeats.
struct ResponsesApiRequest {
  ChatRequest chat;
  Json echoed;  // fields of the request as the response contains them
};

// Returns the fields of the body.
const RequestTable& responses_api_table();

// Parses a body. An error names the first field that is wrong.
ApiResult<ResponsesApiRequest> parse_responses_api_request(std::string_view body);
ChatRequest read_responses_api_request(FieldReader& fields);

}  // namespace neuronmm::serve
