#pragma once
// Reads the messages of a chat as clients write them and converts them to the form that chat
// templates expect. chat_request.cc calls read_messages(). responses_api_input.cc calls the other
// functions for its items.
//
// Errors are recorded in the RequestProblem of the request, with the name of the wrong field, for
// example "messages[2].content". Only the first error is kept. The results after an error are
// incomplete, and the request is refused with status 400.

#include <optional>
#include <string>

#include "serve/requests/field_reader.h"

namespace neuronmm::serve {

// Reads the field "messages" of a request's body. The roles are those of OpenAI: developer, system,
// user, assistant and tool; templates may know others. Content in parts becomes one text, with the
// parts joined by line feeds as in vLLM. Arguments of calls, which clients send as JSON in a
// string, become JSON values. Fields that templates do not know are dropped. An empty array of
// messages is an error.
Json read_messages(FieldReader& fields);

// Reads one message. `path` is the beginning of the field names in errors. Returns null if
// `message` is not an object.
Json read_message(const Json& message, const std::string& path, RequestProblem& problem);
// Reads the content at `key`, a text or an array of parts, as one text. Returns nothing if the
// field is missing, which is no error, or wrong.
std::optional<std::string> read_content(FieldReader& message, const char* key);
// Reads the field "arguments" of a call, in the form that templates expect. A text that is not the
// JSON of an object is passed on as text, because a model may have written it or been cut off. An
// empty text or a missing field means no arguments. Anything but a text or an object is an error.
Json read_arguments(FieldReader& function);

}  // namespace neuronmm::serve
