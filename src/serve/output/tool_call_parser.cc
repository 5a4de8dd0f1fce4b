#include "serve/output/tool_call_parser.h"

#include "serve/output/named_calls.h"
#include "serve/output/python_calls.h"
#include "serve/output/tagged_calls.h"

namespace neuronmm::serve {

std::unique_ptr<ToolCallParser> make_tool_call_parser(ToolSyntax syntax, const ToolList& tools) {
  std::set<std::string, std::less<>> names;
  for (const Tool& tool : *tools) names.insert(tool.name);
  if (has_call_marks(syntax)) return make_json_call_parser(call_marks(syntax), std::move(names));
  if (has_named_calls(syntax)) return make_named_call_parser(named_call_marks(syntax));
  if (auto tags = call_tags(syntax)) return make_tagged_call_parser(*std::move(tags), tools);
  auto python = python_call_marks(syntax);
  if (!python.empty()) return make_python_call_parser(std::move(python), tools);
  switch (syntax) {
    case ToolSyntax::kLlama:
      return make_llama_parser(tools);
    case ToolSyntax::kMistral:
    case ToolSyntax::kMistralByName:
      return make_mistral_parser();
    default:
      break;
  }
  return nullptr;
}

}  // namespace neuronmm::serve
