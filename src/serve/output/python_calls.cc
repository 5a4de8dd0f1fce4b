#include "serve/output/python_calls.h"

namespace neuronmm::serve {

std::vector<PythonCallMarks> python_call_marks(ToolSyntax syntax) {
  switch (syntax) {
    case ToolSyntax::kPythonic:
      return {{"<|python_start|>", "<|python_end|>"},
              {"<|python_tag|>", "<|python_end|>"},
              {"```tool_code", "```"}};
    case ToolSyntax::kLfm2:
      return {{"<|tool_call_start|>", "<|tool_call_end|>"}};
    case ToolSyntax::kOlmo3:
      return {{"<function_calls>", "</function_calls>"}};
    default:
      return {};
  }
}

}  // namespace neuronmm::serve
