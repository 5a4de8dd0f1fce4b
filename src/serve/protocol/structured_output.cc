#include "serve/protocol/structured_output.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/result.h"
#include "serve/output/call_marks.h"
#include "serve/output/named_calls.h"

namespace neuronmm::serve {
namespace {

bool may_be_json_or_calls(const ChatRequest& request) {
  using Kind = ResponseFormat::Kind;
  const Kind kind = request.parameters.response_format.kind;
  return request.tools.choice.kind == ToolChoice::Kind::kAuto &&
         (kind == Kind::kJsonObject || kind == Kind::kJsonSchema);
}

bool may_call_strictly(const ChatRequest& request) {
  return request.tools.choice.kind == ToolChoice::Kind::kAuto &&
         request.parameters.response_format.kind == ResponseFormat::Kind::kText &&
         std::ranges::any_of(request.tools.tools, &Tool::strict);
}

// Returns the format of the calls without the marker with which they begin.
ToolCallFormat without_marker(ToolCallFormat format, const CallMarker& marker) {
  std::string& first = format.begin.empty() ? format.before_name : format.begin;
  NMM_CHECK(first.starts_with(marker.text));
  first.erase(0, marker.text.size());
  return format;
}

// Sets the texts of calls that have the function's name outside of the JSON. The marks stand around
// each call if every call begins with the same one, else around all calls.
void set_named(const NamedCallMarks& marks, ToolCallFormat& format) {
  const bool of_each = marks.next.empty();
  (of_each ? format.before_name : format.begin) = marks.begin;
  (of_each ? format.after_arguments : format.end) = marks.end;
  format.before_name += marks.before_name;
  format.before_arguments = marks.before_arguments;
  format.after_arguments = marks.after_arguments + format.after_arguments;
  format.between = marks.between;
}

void set_list(const CallMarks& marks, ToolCallFormat& format) {
  format.begin = marks.begin + "[";
  const bool has_keys = !marks.name_key.empty();
  format.before_name = has_keys ? fmt::format("{{\"{}\": \"", marks.name_key) : "{\"";
  format.before_arguments = has_keys ? fmt::format("\", \"{}\": ", marks.arguments_key) : "\": ";
  format.after_arguments = "}";
  format.between = ", ";
  format.end = "]" + marks.end;
}

// Sets the format of a free answer whose calls must obey the schemas of strict functions. The
// arguments of other functions are any object.
void set_strict_calls(const ToolFields& tools, ToolSyntax syntax, StructuredOutput& output) {
  std::vector<Tool> functions = tools.tools;
  for (Tool& function : functions) {
    if (!function.strict) function.parameters = {{"type", "object"}};
  }
  output.kind = StructuredOutput::Kind::kStrictCalls;
  output.marker = call_marker(syntax);
  output.has_bare_calls = has_call_marks(syntax);
  // A list of calls has one marker. Elsewhere each call has its own.
  const bool is_list = syntax == ToolSyntax::kMistral || call_marks(syntax).is_list ||
                       (has_named_calls(syntax) && !named_call_marks(syntax).next.empty());
  output.calls = without_marker(
      tool_call_format(syntax, std::move(functions), is_list && tools.parallel), output.marker);
  output.param = "tools";
}

}  // namespace

ToolSyntax call_syntax(ToolSyntax model_syntax, const ChatRequest& request) {
  const bool must_obey_schema =
      request.tools.choice.forced() || may_be_json_or_calls(request) || may_call_strictly(request);
  return must_obey_schema && !writes_json(model_syntax) ? ToolSyntax::kHermes : model_syntax;
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
    default:  // call_syntax() replaces syntaxes without JSON where a format is needed
      if (has_call_marks(syntax)) set_list(call_marks(syntax), format);
      if (has_named_calls(syntax)) set_named(named_call_marks(syntax), format);
  }
  return format;
}

CallMarker call_marker(ToolSyntax syntax) {
  switch (syntax) {
    case ToolSyntax::kLlama:
      return {.text = "{\"name\": \"", .leads = true, .before = "<|python_tag|>"};
    case ToolSyntax::kMistral:
    case ToolSyntax::kMistralByName:
      return {.text = "[TOOL_CALLS]"};
    default:
      return {.text = has_named_calls(syntax) ? named_call_marks(syntax).begin
                                              : call_marks(syntax).begin};
  }
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
                                   const PromptReasoning& reasoning) {
  const ToolFields& tools = request.tools;
  StructuredOutput output = structured_output(request.parameters.response_format);
  output.thinking = reasoning.state;
  output.reasoning_tags = reasoning.tags;
  output.reasoning_budget = request.reasoning_budget;
  if (may_be_json_or_calls(request))
    output.calls = tool_call_format(syntax, tools.tools, tools.parallel);
  if (may_call_strictly(request)) set_strict_calls(tools, syntax, output);
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
