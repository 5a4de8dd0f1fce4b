#include "serve/output/call_marks.h"

namespace neuronmm::serve {

CallMarks call_marks(ToolSyntax syntax) {
  switch (syntax) {
    case ToolSyntax::kGranite:
      return {.begin = "<|tool_call|>", .end = "", .is_list = true};
    case ToolSyntax::kPhi4:
      return {.begin = "<|tool_call|>", .end = "<|/tool_call|>", .is_list = true};
    case ToolSyntax::kFunctools:
      return {.begin = "functools", .end = "", .is_list = true};
    case ToolSyntax::kNemotron:
      return {.begin = "<TOOLCALL>", .end = "</TOOLCALL>", .is_list = true};
    case ToolSyntax::kHunyuan:
      return {.begin = "<tool_calls>", .end = "</tool_calls>", .is_list = true};
    case ToolSyntax::kApertus:
      return {.begin = "<|tools_prefix|>",
              .end = "<|tools_suffix|>",
              .is_list = true,
              .name_key = "",
              .arguments_key = ""};
    case ToolSyntax::kCommand:
      return {.begin = "<|START_ACTION|>",
              .end = "<|END_ACTION|>",
              .is_list = true,
              .name_key = "tool_name",
              .arguments_key = "parameters"};
    default:
      return {};
  }
}

bool has_call_marks(ToolSyntax syntax) {
  switch (syntax) {
    case ToolSyntax::kDescribed:
    case ToolSyntax::kHermes:
    case ToolSyntax::kGranite:
    case ToolSyntax::kPhi4:
    case ToolSyntax::kFunctools:
    case ToolSyntax::kNemotron:
    case ToolSyntax::kHunyuan:
    case ToolSyntax::kApertus:
    case ToolSyntax::kCommand:
      return true;
    default:
      return false;
  }
}

}  // namespace neuronmm::serve
