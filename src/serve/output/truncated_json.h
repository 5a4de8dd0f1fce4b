#pragma once
// Parses JSON objects whose end is missing, for example because an answer reached its token limit
// inside the arguments of a call. The writers and readers of protocols whose arguments are objects
// (Anthropic, Ollama) use it.

#include <string>
#include <string_view>

#include "serve/requests/json_body.h"

namespace neuronmm::serve {

// Returns the object in `text`. If its end is missing, the result has the members and elements that
// are complete. Returns an empty object if `text` holds none.
Json parse_truncated_object(std::string_view text);

}  // namespace neuronmm::serve
