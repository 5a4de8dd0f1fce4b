#include "serve/protocol/structured_output.h"

namespace neuronmm::serve {

namespace {

bool may_be_json_or_calls(const ChatRequest& request) {
  using Kind = ResponseFormat::Kind;
  const Kind kind = request.answer.response_format.kind;
  return request.tools.choice.kind == ToolChoice::Kind::kAuto &&
         (kind == Kind::kJsonObject || kind == Kind::kJsonSchema);
}

}  // namespace

ToolSyntax call_syntax(ToolSyntax of_model, const ChatRequest& request) {
  const bool held = request.tools.choice.forced() || may_be_json_or_calls(request);
  return of_model == ToolSyntax::kXml && held ? ToolSyntax::kHermes : of_model;
}

// Spaces and line ends as the models' own templates have them.
ToolCallShape tool_call_shape(ToolSyntax syntax, std::vector<Tool> functions, bool several) {
  ToolCallShape shape;
  shape.functions = std::move(functions);
  shape.several = several;
  const auto of = [&](const char* before_name, const char* before_arguments,
                      const char* after_arguments, const char* between) {
    shape.before_name = before_name;
    shape.before_arguments = before_arguments;
    shape.after_arguments = after_arguments;
    shape.between = between;
  };
  switch (syntax) {
    case ToolSyntax::kNone:
    case ToolSyntax::kXml:  // call_syntax
      break;
    case ToolSyntax::kDescribed:
    case ToolSyntax::kHermes:
      of("<tool_call>\n{\"name\": \"", "\", \"arguments\": ", "}\n</tool_call>", "\n");
      break;
    case ToolSyntax::kLlama:
      of("{\"name\": \"", "\", \"parameters\": ", "}", "; ");
      break;
    case ToolSyntax::kMistral:
      shape.begin = "[TOOL_CALLS] [";
      of("{\"name\": \"", "\", \"arguments\": ", "}", ", ");
      shape.end = "]";
      break;
    case ToolSyntax::kMistralByName:
      of("[TOOL_CALLS]", "[ARGS]", "", "");
      break;
  }
  return shape;
}

AnswerShape answer_shape(const ResponseFormat& format) {
  using Kind = ResponseFormat::Kind;
  AnswerShape shape;
  shape.param = format.param;
  shape.schema = format.schema;
  shape.pattern = format.pattern;
  if (format.kind == Kind::kJsonObject) shape.kind = AnswerShape::Kind::kJsonObject;
  if (format.kind == Kind::kJsonSchema) shape.kind = AnswerShape::Kind::kJsonSchema;
  if (format.kind == Kind::kPattern) shape.kind = AnswerShape::Kind::kPattern;
  return shape;
}

AnswerShape answer_shape(const ChatRequest& request, ToolSyntax syntax, Thinking thinking) {
  const ToolFields& tools = request.tools;
  AnswerShape shape = answer_shape(request.answer.response_format);
  shape.thinking = thinking;
  if (may_be_json_or_calls(request))
    shape.calls = tool_call_shape(syntax, tools.tools, tools.parallel);
  if (!tools.choice.forced()) return shape;
  const bool named = tools.choice.kind == ToolChoice::Kind::kNamed;
  std::vector<Tool> functions;
  for (const Tool& tool : tools.tools) {
    if (!named || tool.name == tools.choice.name) functions.push_back(tool);
  }
  shape.kind = AnswerShape::Kind::kToolCalls;
  shape.calls = tool_call_shape(syntax, std::move(functions), !named && tools.parallel);
  shape.param = "tool_choice";
  return shape;
}

}  // namespace neuronmm::serve
