#include "serve/output/template_traits.h"

#include "serve/output/call_marks.h"
#include "serve/output/named_calls.h"

namespace neuronmm::serve {
namespace {

ToolSyntax tool_syntax(std::string_view source) {
  const auto has = [&](std::string_view part) {
    return source.find(part) != std::string_view::npos;
  };
  if (!has("tools")) return ToolSyntax::kDescribed;
  if (has("[TOOL_CALLS]")) return has("[ARGS]") ? ToolSyntax::kMistralByName : ToolSyntax::kMistral;
  if (has("<tool_call>")) {
    if (!has("<function=")) return ToolSyntax::kHermes;
    return has("<parameter=") ? ToolSyntax::kXml : ToolSyntax::kDescribed;
  }
  if (has("<｜tool▁call▁begin｜>"))
    return has("```json") ? ToolSyntax::kDeepSeek : ToolSyntax::kDeepSeek31;
  if (has("<function=") && has("</function>") && !has("<parameter="))
    return ToolSyntax::kFunctionary;
  if (has("<|START_ACTION|>")) return ToolSyntax::kCommand;
  if (has("<|/tool_call|>")) return ToolSyntax::kPhi4;
  if (has("<|tool_call|>")) return ToolSyntax::kGranite;
  if (has("<TOOLCALL>")) return ToolSyntax::kNemotron;
  if (has("functools[")) return ToolSyntax::kFunctools;
  if (has("<tool_calls>") && has("</tool_calls>")) return ToolSyntax::kHunyuan;
  if (has("<|start_header_id|>") && has("\"parameters\"")) return ToolSyntax::kLlama;
  return ToolSyntax::kDescribed;
}

}  // namespace

TemplateTraits template_traits(std::string_view source) {
  const auto has = [&](std::string_view part) {
    return source.find(part) != std::string_view::npos;
  };
  const ReasoningTags* reasoning = find_reasoning_tags(source);
  return {.tools = tool_syntax(source),
          .thinks = reasoning != nullptr,
          .reasoning = reasoning == nullptr ? ReasoningTags() : *reasoning,
          .has_developer = has("developer")};
}

std::vector<std::string> special_tokens_of(ToolSyntax syntax) {
  switch (syntax) {
    case ToolSyntax::kNone:
      return {};
    case ToolSyntax::kLlama:
      return {"<|python_tag|>"};
    case ToolSyntax::kMistral:
    case ToolSyntax::kMistralByName:
      return {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"};
    default:
      break;
  }
  if (has_named_calls(syntax)) {
    const NamedCallMarks marks = named_call_marks(syntax);
    std::vector<std::string> texts = marks.around_name;
    texts.insert(texts.end(), {marks.begin, marks.call_end, marks.end});
    return texts;
  }
  const CallMarks marks = call_marks(syntax);
  return {marks.begin, marks.end};
}

}  // namespace neuronmm::serve
