#include "serve/output/tool_call_parser.h"

namespace neuronmm::serve {

std::unique_ptr<ToolCallParser> make_tool_call_parser(ToolSyntax syntax, const ToolList& tools) {
  std::set<std::string, std::less<>> names;
  switch (syntax) {
    case ToolSyntax::kNone:
      return nullptr;
    case ToolSyntax::kDescribed:
    case ToolSyntax::kHermes:
      return make_hermes_parser();
    case ToolSyntax::kXml:
      return make_xml_parser(tools);
    case ToolSyntax::kLlama:
      for (const Tool& tool : *tools) names.insert(tool.name);
      return make_llama_parser(std::move(names));
    case ToolSyntax::kMistral:
    case ToolSyntax::kMistralByName:
      return make_mistral_parser();
  }
  return nullptr;
}

}  // namespace neuronmm::serve
