#pragma once
// Converts arguments that a model writes as plain text to JSON, by the types in the tool's schema.
// The parsers of calls between tags and of calls in Python use it.

#include <string>
#include <string_view>

#include "serve/requests/chat_tools.h"

namespace neuronmm::serve {

// The rule by which an argument's text becomes JSON.
enum class ParameterKind {
  kString,        // a string; also if the schema gives no type
  kStringOrNull,  // null if the text is `null`, else a string
  kJson,          // the text's value if it is JSON, else a string
};

// Returns the kind of the parameter `name` of the first tool that is called `function`.
ParameterKind parameter_kind(const std::vector<Tool>& tools, std::string_view function,
                             const std::string& name);

// Returns the argument as JSON in one line. For kJson, Python's words, lists and dicts become JSON.
std::string parameter_json(ParameterKind kind, const std::string& text);

// Returns `text` escaped for a JSON string, without the quotes.
std::string escaped(std::string_view text);

}  // namespace neuronmm::serve
