#pragma once
// Reads the input of a request to OpenAI's Responses API (POST /v1/responses) and converts it to
// the messages of a chat. responses_api_request.cc is the only user. Errors are recorded in the
// FieldReader's RequestProblem.

#include "serve/requests/field_reader.h"

namespace neuronmm::serve {

// Reads the fields "instructions" and "input" of a request's body. The input is a text or a list of
// items: messages, calls, outputs of calls, and thoughts. Calls and thoughts become parts of the
// assistant's message that they belong to. System messages at the beginning and the instructions
// become one message, because most templates accept only one. Errors are recorded in `fields`.
Json read_responses_api_input(FieldReader& fields);

}  // namespace neuronmm::serve
