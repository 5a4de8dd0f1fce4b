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
  kApertus,    // <|tools_prefix|>[{NAME: {...}}]<|tools_suffix|>: Apertus
  kCommand,    // <|START_ACTION|>[{"tool_name": ..., "parameters": {...}}]<|END_ACTION|>: Command
  // The name stands before the JSON of the arguments (named_calls.h):
  kFunctionary,  // <function=...>{...}</function>
  kDeepSeek,     // ...function<｜tool▁sep｜>NAME, then a block of JSON: V3 and R1
  kDeepSeek31,   // ...NAME<｜tool▁sep｜>{...}: from V3.1 on
  kKimi,         // functions.NAME:0<|tool_call_argument_begin|>{...}: Kimi K2
  // The arguments are no JSON, as in {city:<escape>Rome<escape>}:
  kFunctionGemma,  // <start_function_call>call:NAME{...}<end_function_call>
  kGemma4,         // <|tool_call>call:NAME{...}<tool_call|>
  // Arguments are text between tags (tagged_calls.h):
  kXml,         // <tool_call><function=...><parameter=...>: Qwen3-Coder and Qwen 3.5
  kSeedOss,     // <seed:tool_call><function=...><parameter=...>
  kMiniMax,     // <minimax:tool_call><invoke name="..."><parameter name="...">: MiniMax M2
  kDeepSeek32,  // <｜DSML｜function_calls><｜DSML｜invoke name="...">: V3.2
  kDeepSeek4,   // <｜DSML｜tool_calls><｜DSML｜invoke name="...">: V4
  kMuse,        // <atem:function_calls><atem:invoke name="...">
  kMiniCpm,     // <function name="..."><param name="...">: MiniCPM 5
  kGlm,         // <tool_call>NAME<arg_key>...</arg_key><arg_value>...</arg_value>: from GLM 4.5 on
  // Calls are Python (python_calls.h):
  kLfm2,      // <|tool_call_start|>[f(city="Rome")]<|tool_call_end|>
  kOlmo3,     // <function_calls>f(city="Rome")</function_calls>
  kPythonic,  // [f(city="Rome")], perhaps after ```tool_code: Llama 4, Gemma 3, ToolACE
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

// Returns whether the arguments of calls in this syntax are JSON.
bool writes_json(ToolSyntax syntax);

// Returns the special tokens that are part of calls in this syntax, first the one with which they
// begin. They must stay in the decoded text, because the parser needs them.
std::vector<std::string> special_tokens_of(ToolSyntax syntax);

}  // namespace neuronmm::serve
