#include "serve/output/named_calls.h"

namespace neuronmm::serve {
namespace {

constexpr const char *kCallsBegin = "<｜tool▁calls▁begin｜>", *kCallsEnd = "<｜tool▁calls▁end｜>",
                     *kNextCall = "<｜tool▁call▁begin｜>", *kOneCallEnd = "<｜tool▁call▁end｜>",
                     *kSeparator = "<｜tool▁sep｜>";

NamedCallMarks deepseek_marks() {
  return {.begin = kCallsBegin,
          .call_end = kOneCallEnd,
          .next = kNextCall,
          .end = kCallsEnd,
          .around_name = {kNextCall, std::string("function") + kSeparator, kSeparator, "```json"},
          .before_name = kNextCall,
          .before_arguments = {},
          .after_arguments = kOneCallEnd,
          .between = {}};
}

}  // namespace

NamedCallMarks named_call_marks(ToolSyntax syntax) {
  if (syntax == ToolSyntax::kFunctionary)
    return {.begin = "<function=",
            .call_end = {},
            .next = {},
            .end = "</function>",
            .around_name = {">"},
            .before_name = {},
            .before_arguments = ">",
            .after_arguments = {},
            .between = {}};
  NamedCallMarks marks = deepseek_marks();
  if (syntax == ToolSyntax::kDeepSeek31) {
    marks.before_arguments = kSeparator;
    return marks;
  }
  marks.before_name += std::string("function") + kSeparator;
  marks.before_arguments = "\n```json\n";
  marks.after_arguments = std::string("\n```") + kOneCallEnd;
  marks.between = "\n";
  return marks;
}

bool has_named_calls(ToolSyntax syntax) {
  return syntax == ToolSyntax::kFunctionary || syntax == ToolSyntax::kDeepSeek ||
         syntax == ToolSyntax::kDeepSeek31;
}

}  // namespace neuronmm::serve
