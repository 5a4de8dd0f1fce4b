#pragma once
// Reads the body of POST /v1/responses, OpenAI's Responses API. Such a body describes a chat under
// other field names. The server stores no responses, so fields that refer to an earlier one are
// errors. prepared_generation.cc uses this file.

#include <string_view>

#include "serve/requests/chat_request.h"

namespace neuronmm::serve {

// A chat request, and the fields that its response repeats.
struct ResponsesApiRequest {
  ChatRequest chat;
  Json echoed;  // the request's fields that the response repeats
};

// Returns the table of the fields of the body.
const RequestTable& responses_api_table();

// Parses a body. docs/reference/serving_protocol.md lists the fields. An error names the first
// wrong field.
ApiResult<ResponsesApiRequest> parse_responses_api_request(std::string_view body);
// Reads the fields of the chat. Errors are recorded in fields.problem().
ChatRequest read_responses_api_request(FieldReader& fields);

}  // namespace neuronmm::serve
