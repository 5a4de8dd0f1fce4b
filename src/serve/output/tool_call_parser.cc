#include "serve/output/tool_call_parser.h"

#include "serve/output/named_calls.h"

namespace neuronmm::serve {

std::unique_ptr<ToolCallParser> make_tool_call_parser(ToolSyntax syntax, const ToolList& tools) {
  std::set<std::string, std::less<>> names;
  for (const Tool& tool : *tools) names.insert(tool.name);
  if (has_call_marks(syntax)) return make_json_call_parser(call_marks(syntax), std::move(names));
  if (has_named_calls(syntax)) return make_named_call_parser(named_call_marks(syntax));
  switch (syntax) {
    case ToolSyntax::kXml:
      return make_xml_parser(tools);
    case ToolSyntax::kLlama:
      return make_llama_parser(std::move(names));
    case ToolSyntax::kMistral:
    case ToolSyntax::kMistralByName:
      return make_mistral_parser();
    default:
      break;
  }
  return nullptr;
}

}  // namespace neuronmm::serve
