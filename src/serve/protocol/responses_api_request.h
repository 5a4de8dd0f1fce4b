#pragma once
// The body of POST /v1/responses, OpenAI's Responses API: a chat in other words. Nothing is kept
// between requests.

#include <string_view>

#include "serve/protocol/chat_request.h"

namespace neuronmm::serve {

struct ResponsesApiRequest {
  ChatRequest chat;
  Json echoed;  // what the response tells of its request
};

// The fields of the body.
const RequestTable& responses_api_table();

// docs/serving_protocol.md has the fields. Errors name the first one that is wrong.
ApiResult<ResponsesApiRequest> parse_responses_api_request(std::string_view body);
ChatRequest read_responses_api_request(
    FieldReader& fields);  // what is wrong is the reader's problem

}  // namespace neuronmm::serve
