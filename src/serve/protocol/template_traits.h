#pragma once
// What a chat template's text tells of the answers that its model gives: how they call tools, and
// whether they think aloud first.

#include <string>
#include <string_view>
#include <vector>

namespace neuronmm::serve {

enum class ToolSyntax {
  kNone,           // there are none to call
  kDescribed,      // the template shows none, or their calls are not known here: described_tools.h
  kHermes,         // <tool_call>{"name": ..., "arguments": {...}}</tool_call>; Qwen 2.5 and 3, too
  kXml,            // <tool_call><function=...><parameter=...>; Qwen3-Coder, Qwen 3.5
  kLlama,          // {"name": ..., "parameters": {...}}, perhaps behind <|python_tag|>; Llama 3
  kMistral,        // [TOOL_CALLS] [{"name": ..., "arguments": {...}}, ...]
  kMistralByName,  // [TOOL_CALLS]name[ARGS]{...}; Mistral's tokenizers from version 11 on
};

struct TemplateTraits {
  ToolSyntax tools = ToolSyntax::kNone;
  bool thinks = false;         // <think>...</think> before the answer
  bool has_developer = false;  // knows this role
};

TemplateTraits template_traits(std::string_view source);

// Special tokens that are a part of such calls, and so of the text that is parsed.
std::vector<std::string> special_tokens_of(ToolSyntax syntax);

}  // namespace neuronmm::serve
