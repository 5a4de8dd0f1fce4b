#pragma once
// Arguments that a model writes as plain text become JSON by the types that the tool's schema gives
// them.

#include <string>
#include <string_view>

#include "serve/protocol/chat_tools.h"

namespace neuronmm::serve {

enum class ParameterKind {
  kString,        // the text as it stands, also where the schema says nothing
  kStringOrNull,  // the same, but for `null`
  kJson,          // what the text is as JSON, else a string
};

// Of the parameter `name` of the first of `tools` that is called `function`.
ParameterKind parameter_kind(const std::vector<Tool>& tools, std::string_view function,
                             const std::string& name);

// JSON in one line. Python's True, False and None are what they mean.
std::string parameter_json(ParameterKind kind, const std::string& text);

// `text` as the inside of a JSON string.
std::string escaped(std::string_view text);

}  // namespace neuronmm::serve
