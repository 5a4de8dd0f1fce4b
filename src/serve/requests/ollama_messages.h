#pragma once
// Reads the messages of POST /api/chat, which are Ollama's, and converts them to the form that chat
// templates expect. ollama_request.cc uses this file. Errors are recorded in the RequestProblem of
// the request.

#include "serve/requests/field_reader.h"

namespace neuronmm::serve {

// Reads the field "messages". It may be empty or absent.
//
// Calls in these messages often have no id, and results name only their tool ("tool_name"). Some
// templates demand ids, so calls get them here. A result gets the id of the first call of its tool
// that has no result yet, or else of the first call of any tool.
Json read_ollama_messages(FieldReader& fields);

}  // namespace neuronmm::serve
