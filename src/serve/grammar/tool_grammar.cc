#include "serve/grammar/tool_grammar.h"

#include <utility>

namespace neuronmm::grammar {

ToolCallFormat hermes_tool_calls() {
  return {.before = "",
          .before_name = "<tool_call>\n{\"name\": ",
          .before_arguments = ", \"arguments\": ",
          .behind_arguments = "}\n</tool_call>",
          .between = "\n",
          .behind = ""};
}

ToolCallFormat llama3_tool_calls() {
  return {.before = "",
          .before_name = "{\"name\": ",
          .before_arguments = ", \"parameters\": ",
          .behind_arguments = "}",
          .between = "; ",
          .behind = ""};
}

ToolCallFormat mistral_tool_calls() {
  return {.before = "[TOOL_CALLS][",
          .before_name = "{\"name\": ",
          .before_arguments = ", \"arguments\": ",
          .behind_arguments = "}",
          .between = ", ",
          .behind = "]"};
}

Result<CompiledGrammar> compile_tool_calls(const ToolCallFormat& format,
                                           const std::vector<Tool>& tools, int64_t max_calls,
                                           const SchemaOptions& options) {
  static const Json kAnyObject = {{"type", "object"}};
  if (tools.empty()) return fail("tools: expected at least one function");
  RepeatedSequences calls;
  calls.before = format.before;
  calls.between = format.between;
  calls.behind = format.behind;
  calls.maximum = max_calls;
  for (const Tool& tool : tools) {
    const std::string name = Json(tool.name).dump(-1, ' ', false, Json::error_handler_t::replace);
    const Json* schema = tool.parameters == nullptr ? &kAnyObject : tool.parameters;
    calls.alternatives.push_back({format.before_name + name + format.before_arguments,
                                  SchemaPart{schema, tool.source}, format.behind_arguments});
  }
  return compile_sequences(calls, options);
}

}  // namespace neuronmm::grammar
