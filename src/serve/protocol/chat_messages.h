#pragma once
// The messages of a chat, as clients write them and as chat templates read them.

#include "serve/protocol/field_reader.h"

namespace neuronmm::serve {

// Roles are those of OpenAI: developer, system, user, assistant and tool. Contents become one text
// (parts are joined by line ends, as in vLLM), and the arguments of calls, which are JSON in a
// string, become that JSON. Fields that templates do not know are left out. What is wrong is
// recorded in `fields`, of the body.
Json read_messages(FieldReader& fields);

}  // namespace neuronmm::serve
