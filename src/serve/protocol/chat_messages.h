#pragma once
// The messages of a chat, as clients write them and as chat templates read them.

#include <optional>
#include <string>

#include "serve/protocol/field_reader.h"

namespace neuronmm::serve {

// Roles are those of OpenAI: developer, system, user, assistant and tool. Contents become one text
// (parts are joined by line ends, as in vLLM), and the arguments of calls, which are JSON in a
// string, become that JSON. Fields that templates do not know are left out. What is wrong is
// recorded in `fields`, of the body.
Json read_messages(FieldReader& fields);

// One of them, and its parts. `path` begins the names of fields in errors.
Json read_message(const Json& message, const std::string& path, RequestProblem& problem);
// A text, or parts of text, as one text; nothing where there is none.
std::optional<std::string> read_content(FieldReader& message, const char* key);
// The arguments of a call, as templates are given them.
Json read_arguments(FieldReader& function);

}  // namespace neuronmm::serve
