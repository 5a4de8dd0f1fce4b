#pragma once
// The output format that an answer must have, as the input of the grammar compiler
// (StructuredOutputCompiler in serve/http). It follows from a request's response format and its
// tools.

#include <optional>
#include <string>
#include <vector>

#include "serve/output/template_traits.h"
#include "serve/protocol/prompt.h"
#include "serve/requests/chat_request.h"

namespace neuronmm::serve {

// The text that tool calls consist of, in the syntax of one model:
//
//   calls = begin call (between call)* end
//   call = before_name NAME before_arguments ARGUMENTS after_arguments
//
// NAME is the name of one of the functions, and ARGUMENTS a JSON object that obeys its schema.
// Everything else is literal text, in which special tokens stand as their text. If `several` is
// false, there is exactly one call.
struct ToolCallFormat {
  std::string begin, before_name, before_arguments, after_arguments, between, end;
  std::vector<Tool> functions;
  bool several = false;
};

// The text with which calls in one syntax begin.
struct CallMarker {
  std::string text;
  // Only calls at the beginning of an answer or directly after another call count, because the text
  // may stand in any answer. The token `before` may precede the first call.
  bool leads = false;
  std::string before = {};
};

// An output format.
struct StructuredOutput {
  enum class Kind {
    kText,        // any text
    kJsonObject,  // any JSON object
    kJsonSchema,  // JSON that obeys `schema`
    kPattern,     // a text that the regular expression `pattern` matches fully
    kGrammar,     // a text of the grammar `pattern`, which is GBNF
    kToolCalls,   // tool calls in the format `calls`
    // Any text. What follows `marker` in it is a call in the format `calls`, which lacks the
    // marker.
    kStrictCalls,
    // One call in JSON without a marker, in either of the layouts that models write.
    kBareCall,
  };
  Kind kind = Kind::kText;
  Json schema = {};
  std::string pattern = {};
  // The calls for kToolCalls. For the kinds of JSON, calls that the answer may have instead of
  // JSON, if there are functions.
  ToolCallFormat calls = {};
  CallMarker marker = {};
  // For kStrictCalls: whether calls may also be written without the marker.
  bool has_bare_calls = false;
  // The thoughts that may come before the formatted text, between the marks `reasoning_tags`.
  // kOptional allows thoughts or nothing. kOpened allows text up to the end mark. White space may
  // follow the thoughts. They are ended after `reasoning_budget` tokens.
  Thinking thinking = Thinking::kNone;
  ReasoningTags reasoning_tags = {};
  std::optional<int64_t> reasoning_budget = {};
  std::string param = {};  // the field that demands the format, for errors
};

// Returns the syntax in which the model writes the calls of this request. Calls that are forced, or
// that are an alternative to a JSON format, must obey their schemas, and so must those of strict
// functions. Arguments that are text between tags, or Python, cannot be held to a schema. Models of
// such syntaxes therefore write these calls as JSON, between the tags of kHermes, and the prompt
// tells them so unless their own calls begin with the same tag (prompt.h).
ToolSyntax call_syntax(ToolSyntax model_syntax, const ChatRequest& request);

// Returns the format of calls to these functions in a syntax.
ToolCallFormat tool_call_format(ToolSyntax syntax, std::vector<Tool> functions, bool several);

// Returns the text with which the calls of this syntax begin.
CallMarker call_marker(ToolSyntax syntax);

// Returns the output format for a response format alone.
StructuredOutput structured_output(const ResponseFormat& format);
// Returns the output format of a chat: calls if the tool choice forces them, else the response
// format. If that format is JSON and the model may choose to call tools, the answer may be either.
// If the answer is any text and a function is strict, it is kStrictCalls.
StructuredOutput structured_output(const ChatRequest& request, ToolSyntax syntax,
                                   const PromptReasoning& reasoning);

}  // namespace neuronmm::serve
