#pragma once
// JSON whose end is missing.

#include <string>
#include <string_view>

#include "serve/protocol/json_body.h"

namespace neuronmm::serve {

// The object that `text` is, or what is whole of one whose end is missing: members and elements
// that have ended. Where there is none, an empty object.
Json parse_truncated_object(std::string_view text);

}  // namespace neuronmm::serve
