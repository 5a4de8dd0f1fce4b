#include "serve/output/template_traits.h"

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
  if (has("<|start_header_id|>") && has("\"parameters\"")) return ToolSyntax::kLlama;
  return ToolSyntax::kDescribed;
}

}  // namespace

TemplateTraits template_traits(std::string_view source) {
  const auto has = [&](std::string_view part) {
    return source.find(part) != std::string_view::npos;
  };
  return {
      .tools = tool_syntax(source), .thinks = has("</think>"), .has_developer = has("developer")};
}

std::vector<std::string> special_tokens_of(ToolSyntax syntax) {
  switch (syntax) {
    case ToolSyntax::kNone:
      return {};
    case ToolSyntax::kDescribed:
    case ToolSyntax::kHermes:
    case ToolSyntax::kXml:
      return {"<tool_call>", "</tool_call>"};
    case ToolSyntax::kLlama:
      return {"<|python_tag|>"};
    case ToolSyntax::kMistral:
    case ToolSyntax::kMistralByName:
      return {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"};
  }
  return {};
}

}  // namespace neuronmm::serve
