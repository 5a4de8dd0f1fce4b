#pragma once
// Calls of functions, as the chat formats of model families write them.

#include <cstdint>
#include <string>
#include <vector>

#include "serve/grammar/schema_compiler.h"

namespace neuronmm::grammar {

// before + call + (between + call)... + behind, where a call is
// before_name + name in quotes + before_arguments + arguments + behind_arguments.
struct ToolCallFormat {
  std::string before, before_name, before_arguments, behind_arguments, between, behind;
};

// <tool_call>\n{"name": "f", "arguments": {...}}\n</tool_call>
ToolCallFormat hermes_tool_calls();
// {"name": "f", "parameters": {...}}
ToolCallFormat llama3_tool_calls();
// [TOOL_CALLS][{"name": "f", "arguments": {...}}, ...]
ToolCallFormat mistral_tool_calls();

struct Tool {
  std::string name;
  const Json* parameters = nullptr;  // nullptr: any object. Only while compiling
  std::string source;                // begins messages: "tools[0].function.parameters"
};

// One to `max_calls` calls of any of the tools, which are at least one.
Result<CompiledGrammar> compile_tool_calls(const ToolCallFormat& format,
                                           const std::vector<Tool>& tools, int64_t max_calls,
                                           const SchemaOptions& options = {});

}  // namespace neuronmm::grammar
