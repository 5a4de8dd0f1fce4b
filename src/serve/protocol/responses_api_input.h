#pragma once
// The input of OpenAI's Responses API as the messages of a chat.

#include "serve/protocol/field_reader.h"

namespace neuronmm::serve {

// instructions and input: a text, or items: messages, calls, the outputs of these, and thoughts.
// Calls and thoughts become parts of the assistant's message that they belong to; system
// messages that begin it become one, with the instructions, because most templates know one.
// What is wrong is recorded in `fields`, of the body.
Json read_responses_api_input(FieldReader& fields);

}  // namespace neuronmm::serve
