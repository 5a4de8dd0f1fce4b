#include "serve/output/template_traits.h"

#include "serve/output/call_marks.h"
#include "serve/output/named_calls.h"
#include "serve/output/python_calls.h"
#include "serve/output/tagged_calls.h"

namespace neuronmm::serve {
namespace {

struct SourceMark {
  // Occurs in the templates of this syntax, and in no template of a syntax that is looked for
  // later.
  std::string_view text;
  ToolSyntax syntax;
};

// Marks that are enough to know a syntax.
constexpr SourceMark kSourceMarks[] = {
    {"]<]minimax[>[", ToolSyntax::kDescribed},  // MiniMax M3 nests the tags of arguments
    {"<arg_key>", ToolSyntax::kGlm},
    {"<seed:tool_call>", ToolSyntax::kSeedOss},
    {"<minimax:tool_call>", ToolSyntax::kMiniMax},
    {"<atem:function_calls>", ToolSyntax::kMuse},
    {"<function name=\"", ToolSyntax::kMiniCpm},
    {"<|tool_call_argument_begin|>", ToolSyntax::kKimi},
    {"<start_function_call>", ToolSyntax::kFunctionGemma},
    {"<|tool_call>call:", ToolSyntax::kGemma4},
    {"<|tool_call_start|>", ToolSyntax::kLfm2},
    {"<|tool_list_start|>", ToolSyntax::kLfm2},
    {"List of tools: [", ToolSyntax::kLfm2},  // LFM2.5 has these words alone
    {"<function_calls>", ToolSyntax::kOlmo3},
    {"<|tools_prefix|>", ToolSyntax::kApertus},
    {"func_name1(", ToolSyntax::kPythonic},
    {"tool_code", ToolSyntax::kPythonic},
};

ToolSyntax tool_syntax(std::string_view source) {
  const auto has = [&](std::string_view part) {
    return source.find(part) != std::string_view::npos;
  };
  if (!has("tools")) return ToolSyntax::kDescribed;
  if (has("[TOOL_CALLS]")) return has("[ARGS]") ? ToolSyntax::kMistralByName : ToolSyntax::kMistral;
  if (has("｜DSML｜"))
    return has("function_calls>") ? ToolSyntax::kDeepSeek32 : ToolSyntax::kDeepSeek4;
  for (const SourceMark& mark : kSourceMarks)
    if (has(mark.text)) return mark.syntax;
  if (has("<tool_call>")) {
    if (!has("<function=")) return ToolSyntax::kHermes;
    return has("<parameter=") ? ToolSyntax::kXml : ToolSyntax::kDescribed;
  }
  if (has("<｜tool▁call▁begin｜>"))
    return has("```json") ? ToolSyntax::kDeepSeek : ToolSyntax::kDeepSeek31;
  if (has("<function=") && has("</function>") && !has("<parameter="))
    return ToolSyntax::kFunctionary;
  if (has("<|START_ACTION|>")) return ToolSyntax::kCommand;
  if (has("<|/tool_call|>")) return ToolSyntax::kPhi4;
  if (has("<|tool_call|>")) return ToolSyntax::kGranite;
  if (has("<TOOLCALL>")) return ToolSyntax::kNemotron;
  if (has("functools[")) return ToolSyntax::kFunctools;
  if (has("<tool_calls>") && has("</tool_calls>")) return ToolSyntax::kHunyuan;
  const bool is_llama = has("<|start_header_id|>") || has("<|header_start|>");
  if (is_llama && has("\"parameters\"")) return ToolSyntax::kLlama;
  return ToolSyntax::kDescribed;
}

}  // namespace

TemplateTraits template_traits(std::string_view source) {
  const auto has = [&](std::string_view part) {
    return source.find(part) != std::string_view::npos;
  };
  const ReasoningTags* reasoning = find_reasoning_tags(source);
  return {.tools = tool_syntax(source),
          .thinks = reasoning != nullptr,
          .reasoning = reasoning == nullptr ? ReasoningTags() : *reasoning,
          .has_developer = has("developer")};
}

bool writes_json(ToolSyntax syntax) {
  if (has_named_calls(syntax)) return named_call_marks(syntax).quote.empty();
  return !call_tags(syntax) && python_call_marks(syntax).empty();
}

std::vector<std::string> special_tokens_of(ToolSyntax syntax) {
  switch (syntax) {
    case ToolSyntax::kNone:
      return {};
    case ToolSyntax::kLlama:
      return {"<|python_tag|>", "<|python_start|>", "<|python_end|>"};
    case ToolSyntax::kMistral:
    case ToolSyntax::kMistralByName:
      return {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"};
    default:
      break;
  }
  std::vector<std::string> texts;
  for (const PythonCallMarks& marks : python_call_marks(syntax))
    texts.insert(texts.end(), {marks.begin, marks.end});
  if (const auto tags = call_tags(syntax))
    texts = {tags->begin,   tags->end,         tags->call_end,  tags->key_begin,
             tags->key_end, tags->value_begin, tags->value_end, "｜DSML｜"};
  if (has_named_calls(syntax)) {
    const NamedCallMarks marks = named_call_marks(syntax);
    texts = {marks.begin, marks.call_end, marks.end, marks.quote};
    texts.insert(texts.end(), marks.around_name.begin(), marks.around_name.end());
  }
  if (!texts.empty()) return texts;
  const CallMarks marks = call_marks(syntax);
  return {marks.begin, marks.end};
}

}  // namespace neuronmm::serve
