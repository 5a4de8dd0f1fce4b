#include "serve/protocol/structured_output.h"

namespace neuronmm::serve {

namespace {

bool may_be_json_or_calls(const ChatRequest& request) {
  using Kind = ResponseFormat::Kind;
  const Kind kind = request.parameters.response_format.kind;
  return request.tools.choice.kind == ToolChoice::Kind::kAuto &&
         (kind == Kind::kJsonObject || kind == Kind::kJsonSchema);
}

}  // namespace

ToolSyntax call_syntax(ToolSyntax model_syntax, const ChatRequest& request) {
  const bool must_obey_schema = request.tools.choice.forced() || may_be_json_or_calls(request);
  return model_syntax == ToolSyntax::kXml && must_obey_schema ? ToolSyntax::kHermes : model_syntax;
}

// The spaces and line ends are those of the models' own templates.
ToolCallFormat tool_call_format(ToolSyntax syntax, std::vector<Tool> functions, bool several) {
  ToolCallFormat format;
  format.functions = std::move(functions);
  format.several = several;
  const auto set_texts = [&](const char* before_name, const char* before_arguments,
                             const char* after_arguments, const char* between) {
    format.before_name = before_name;
    format.before_arguments = before_arguments;
    format.after_arguments = after_arguments;
    format.between = between;
  };
  switch (syntax) {
    case ToolSyntax::kNone:
    case ToolSyntax::kXml:  // call_syntax() replaces it where a format is needed
      break;
    case ToolSyntax::kDescribed:
    case ToolSyntax::kHermes:
      set_texts("<tool_call>\n{\"name\": \"", "\", \"arguments\": ", "}\n</tool_call>", "\n");
      break;
    case ToolSyntax::kLlama:
      set_texts("{\"name\": \"", "\", \"parameters\": ", "}", "; ");
      break;
    case ToolSyntax::kMistral:
      format.begin = "[TOOL_CALLS] [";
      set_texts("{\"name\": \"", "\", \"arguments\": ", "}", ", ");
      format.end = "]";
      break;
    case ToolSyntax::kMistralByName:
      set_texts("[TOOL_CALLS]", "[ARGS]", "", "");
      break;
  }
  return format;
}

StructuredOutput structured_output(const ResponseFormat& format) {
  using Kind = ResponseFormat::Kind;
  StructuredOutput output;
  output.param = format.param;
  output.schema = format.schema;
  output.pattern = format.pattern;
  if (format.kind == Kind::kJsonObject) output.kind = StructuredOutput::Kind::kJsonObject;
  if (format.kind == Kind::kJsonSchema) output.kind = StructuredOutput::Kind::kJsonSchema;
  if (format.kind == Kind::kPattern) output.kind = StructuredOutput::Kind::kPattern;
  if (format.kind == Kind::kGrammar) output.kind = StructuredOutput::Kind::kGrammar;
  return output;
}

StructuredOutput structured_output(const ChatRequest& request, ToolSyntax syntax,
                                   Thinking thinking) {
  const ToolFields& tools = request.tools;
  StructuredOutput output = structured_output(request.parameters.response_format);
  output.thinking = thinking;
  if (may_be_json_or_calls(request))
    output.calls = tool_call_format(syntax, tools.tools, tools.parallel);
  if (!tools.choice.forced()) return output;
  const bool named = tools.choice.kind == ToolChoice::Kind::kNamed;
  std::vector<Tool> functions;
  for (const Tool& tool : tools.tools) {
    if (!named || tool.name == tools.choice.name) functions.push_back(tool);
  }
  output.kind = StructuredOutput::Kind::kToolCalls;
  output.calls = tool_call_format(syntax, std::move(functions), !named && tools.parallel);
  output.param = "tool_choice";
  return output;
}

}  // namespace neuronmm::serve
