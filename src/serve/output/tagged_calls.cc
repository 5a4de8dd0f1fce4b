#include "serve/output/tagged_calls.h"

namespace neuronmm::serve {
namespace {

// <function=f><parameter=city>Rome</parameter></function>
CallTags function_tags(std::string begin, std::string end) {
  return {.begin = std::move(begin),
          .name_begin = "<function=",
          .key_begin = "<parameter=",
          .value_end = "</parameter>",
          .call_end = "</function>",
          .end = std::move(end),
          .values_have_lines = true};
}

// <invoke name="f"><parameter name="city">Rome</parameter></invoke>, with a word before each name.
CallTags invoke_tags(const std::string& word, const std::string& calls) {
  return {.begin = "<" + calls + ">",
          .name_begin = "<" + word + "invoke name=\"",
          .key_begin = "<" + word + "parameter name=\"",
          .value_end = "</" + word + "parameter>",
          .call_end = "</" + word + "invoke>",
          .end = "</" + calls + ">"};
}

}  // namespace

std::optional<CallTags> call_tags(ToolSyntax syntax) {
  switch (syntax) {
    case ToolSyntax::kXml:
      return function_tags("<tool_call>", "</tool_call>");
    case ToolSyntax::kSeedOss:
      return function_tags("<seed:tool_call>", "</seed:tool_call>");
    case ToolSyntax::kMiniMax:
      return invoke_tags("", "minimax:tool_call");
    case ToolSyntax::kDeepSeek32:
      return invoke_tags("｜DSML｜", "｜DSML｜function_calls");
    case ToolSyntax::kDeepSeek4:
      return invoke_tags("｜DSML｜", "｜DSML｜tool_calls");
    case ToolSyntax::kMuse:
      return invoke_tags("atem:", "atem:function_calls");
    case ToolSyntax::kMiniCpm:
      return CallTags{.name_begin = "<function name=\"",
                      .key_begin = "<param name=\"",
                      .value_end = "</param>",
                      .call_end = "</function>",
                      .has_cdata = true};
    case ToolSyntax::kGlm:
      return CallTags{.begin = "<tool_call>",
                      .name_end = {},
                      .key_begin = "<arg_key>",
                      .key_end = "</arg_key>",
                      .value_begin = "<arg_value>",
                      .value_end = "</arg_value>",
                      .call_end = "</tool_call>"};
    default:
      return std::nullopt;
  }
}

}  // namespace neuronmm::serve
