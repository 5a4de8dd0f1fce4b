#pragma once
// Finds out from the source of a chat template how the model calls tools and whether it writes its
// thoughts first. Models say this nowhere else. served_model.cc uses it when the server starts.

#include <string>
#include <string_view>
#include <vector>

#include "serve/output/reasoning_tags.h"

namespace neuronmm::serve {

// The syntax in which a model writes tool calls.
enum class ToolSyntax {
  kNone,  // no tools can be called
  // The template shows no tools, or its calls have an unknown syntax. described_tools.h describes
  // the tools in words.
  kDescribed,
  // <tool_call>{"name": ..., "arguments": {...}}</tool_call>: Hermes, Qwen 2.5 and Qwen 3.
  kHermes,
  // Lists of such objects between other marks (call_marks.h):
  kGranite,    // <|tool_call|>[...]: Granite 3
  kPhi4,       // <|tool_call|>[...]<|/tool_call|>: Phi-4-mini
  kFunctools,  // functools[...]: Firefunction
  kNemotron,   // <TOOLCALL>[...]</TOOLCALL>: Nemotron Nano
  kHunyuan,    // <tool_calls>[...]</tool_calls>: Hunyuan
  kCommand,    // <|START_ACTION|>[{"tool_name": ..., "parameters": {...}}]<|END_ACTION|>: Command
  // The name stands before the JSON of the arguments (named_calls.h):
  kFunctionary,  // <function=...>{...}</function>
  kDeepSeek,     // ...function<｜tool▁sep｜>NAME, then a block of JSON: V3 and R1
  kDeepSeek31,   // ...NAME<｜tool▁sep｜>{...}: from V3.1 on
  // <tool_call><function=...><parameter=...>: Qwen3-Coder and Qwen 3.5.
  kXml,
  // {"name": ..., "parameters": {...}}, perhaps after <|python_tag|>: Llama 3.
  kLlama,
  // [TOOL_CALLS] [{"name": ..., "arguments": {...}}, ...]: older tokenizers of Mistral.
  kMistral,
  // [TOOL_CALLS]name[ARGS]{...}: Mistral's tokenizers from version 11 on.
  kMistralByName,
};

// Properties of a chat template.
struct TemplateTraits {
  ToolSyntax tools = ToolSyntax::kNone;
  bool thinks = false;  // answers may begin with thoughts between `reasoning`
  ReasoningTags reasoning = {};
  bool has_developer = false;  // knows the role "developer"
};

// Returns the properties of the template with this source.
TemplateTraits template_traits(std::string_view source);

// Returns the special tokens that are part of calls in this syntax. They must stay in the decoded
// text, because the parser needs them.
std::vector<std::string> special_tokens_of(ToolSyntax syntax);

}  // namespace neuronmm::serve
