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
          .after_arguments = kOneCallEnd};
}

NamedCallMarks functionary_marks() {
  return {.begin = "<function=",
          .call_end = {},
          .next = {},
          .end = "</function>",
          .around_name = {">"},
          .before_arguments = ">"};
}

NamedCallMarks kimi_marks() {
  const std::string next = "<|tool_call_begin|>", arguments = "<|tool_call_argument_begin|>";
  return {.begin = "<|tool_calls_section_begin|>",
          .call_end = "<|tool_call_end|>",
          .next = next,
          .end = "<|tool_calls_section_end|>",
          .around_name = {next, "functions.", arguments},
          .has_number = true,
          .before_name = next + "functions.",
          .before_arguments = ":0" + arguments,
          .after_arguments = "<|tool_call_end|>"};
}

NamedCallMarks gemma_marks(std::string begin, std::string end, std::string quote) {
  return {.begin = std::move(begin),
          .call_end = {},
          .next = {},
          .end = std::move(end),
          .around_name = {"call:"},
          .quote = std::move(quote)};
}

}  // namespace

NamedCallMarks named_call_marks(ToolSyntax syntax) {
  NamedCallMarks marks = deepseek_marks();
  switch (syntax) {
    case ToolSyntax::kFunctionary:
      return functionary_marks();
    case ToolSyntax::kKimi:
      return kimi_marks();
    case ToolSyntax::kFunctionGemma:
      return gemma_marks("<start_function_call>", "<end_function_call>", "<escape>");
    case ToolSyntax::kGemma4:
      return gemma_marks("<|tool_call>", "<tool_call|>", "<|\"|>");
    case ToolSyntax::kDeepSeek31:
      marks.before_arguments = kSeparator;
      return marks;
    default:
      break;
  }
  marks.before_name += std::string("function") + kSeparator;
  marks.before_arguments = "\n```json\n";
  marks.after_arguments = std::string("\n```") + kOneCallEnd;
  marks.between = "\n";
  return marks;
}

bool has_named_calls(ToolSyntax syntax) {
  switch (syntax) {
    case ToolSyntax::kFunctionary:
    case ToolSyntax::kDeepSeek:
    case ToolSyntax::kDeepSeek31:
    case ToolSyntax::kKimi:
    case ToolSyntax::kFunctionGemma:
    case ToolSyntax::kGemma4:
      return true;
    default:
      return false;
  }
}

}  // namespace neuronmm::serve
