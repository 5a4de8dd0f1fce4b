#include "serve/requests/custom_tools.h"

namespace neuronmm::serve {
namespace {

Json text_schema() {
  return {{"type", "object"},
          {"properties", {{kCustomInput, {{"type", "string"}}}}},
          {"required", {kCustomInput}},
          {"additionalProperties", false}};
}

// Reads {"syntax": "regex", "definition": ...} into the pattern of the argument.
void read_grammar(FieldReader& grammar, Tool& tool) {
  if (grammar.required_string("syntax") != "regex")
    return grammar.add_mismatch("syntax",
                                "\"regex\": this server enforces no grammars of other syntaxes");
  const std::string pattern = grammar.required_string("definition");
  tool.parameters["properties"][kCustomInput]["pattern"] = fmt::format("^(?:{})$", pattern);
  tool.strict = true;
}

// Chats have the grammar in an object of its own, responses have its fields in the format.
void read_format(FieldReader& format, Tool& tool) {
  const std::string type = format.required_string("type");
  if (type == "text") return;
  if (type != "grammar") return format.add_mismatch("type", "\"text\" or \"grammar\"");
  const Json* nested = format.object("grammar");
  if (nested == nullptr) return read_grammar(format, tool);
  FieldReader grammar(*nested, format.path("grammar."), format.problem());
  read_grammar(grammar, tool);
}

}  // namespace

Tool read_custom_tool(FieldReader& tool) {
  (void)tool.string("description");
  Tool read{.name = read_tool_name(tool), .parameters = text_schema(), .custom = true};
  if (const Json* object = tool.object("format")) {
    FieldReader format(*object, tool.path("format."), tool.problem());
    read_format(format, read);
  }
  return read;
}

Json template_function(const Tool& tool, const Json& description) {
  Json function = {{"name", tool.name}};
  if (description.is_string()) function["description"] = description;
  function["parameters"] = tool.parameters;
  return {{"type", "function"}, {"function", std::move(function)}};
}

Json custom_arguments(const std::string& input) { return {{kCustomInput, input}}; }

}  // namespace neuronmm::serve
