#include "serve/protocol/tool_call_parser.h"

namespace neuronmm::serve {

std::unique_ptr<ToolCallParser> make_tool_call_parser(ToolSyntax syntax,
                                                      std::set<std::string, std::less<>> names) {
  switch (syntax) {
    case ToolSyntax::kNone:
    case ToolSyntax::kUnknown:
      return nullptr;
    case ToolSyntax::kHermes:
      return make_hermes_parser();
    case ToolSyntax::kLlama:
      return make_llama_parser(std::move(names));
    case ToolSyntax::kMistral:
    case ToolSyntax::kMistralByName:
      return make_mistral_parser();
  }
  return nullptr;
}

}  // namespace neuronmm::serve
