#pragma once
// Reads custom tools, OpenAI's tools whose input is a text and not JSON. A model sees such a tool
// as a function with the single argument "input", and output/custom_tool_input.h takes the text out
// of its calls again. chat_tools.cc and the readers of messages use this file.

#include <string>

#include "serve/requests/chat_tools.h"

namespace neuronmm::serve {

// The name of the only argument of such a function.
inline constexpr const char* kCustomInput = "input";

// Reads a tool {"type": "custom", ...} with "name", "description" and "format". A format that is a
// regular expression becomes a pattern of the argument, and the tool is strict. Grammars in Lark's
// syntax are refused.
Tool read_custom_tool(FieldReader& tool);

// Returns the function that stands for the tool, in the form of chat templates.
Json template_function(const Tool& tool, const Json& description);

// Returns the arguments of the function for an input.
Json custom_arguments(const std::string& input);

}  // namespace neuronmm::serve
