#pragma once
// The output format that an answer must have, as the input of the grammar compiler
// (StructuredOutputCompiler in serve/http). It follows from a request's response format and its
// tools.

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

// An output format.
struct StructuredOutput {
  enum class Kind {
    kText,        // any text
    kJsonObject,  // any JSON object
    kJsonSchema,  // JSON that obeys `schema`
    kPattern,     // a text that the regular expression `pattern` matches fully
    kGrammar,     // a text of the grammar `pattern`, which is GBNF
    kToolCalls,   // tool calls in the format `calls`
  };
  Kind kind = Kind::kText;
  Json schema = {};
  std::string pattern = {};
  // The calls for kToolCalls. For the kinds of JSON, calls that the answer may have instead of
  // JSON, if there are functions.
  ToolCallFormat calls = {};
  // The thoughts that may come before the formatted text. kOptional allows one <think>...</think>
  // or nothing. kOpened allows text up to </think>. White space may follow the thoughts.
  Thinking thinking = Thinking::kNone;
  std::string param = {};  // the field that demands the format, for errors
};

// Returns the syntax in which the model writes the calls of this request. Calls that are forced, or
// that are an alternative to a JSON format, must obey their schemas. The syntax kXml writes
// arguments as text between tags, which cannot be held to a schema. A model of kXml therefore
// writes such calls as JSON, between the <tool_call> tags that it knows.
ToolSyntax call_syntax(ToolSyntax model_syntax, const ChatRequest& request);

// Returns the format of calls to these functions in a syntax.
ToolCallFormat tool_call_format(ToolSyntax syntax, std::vector<Tool> functions, bool several);

// Returns the output format for a response format alone.
StructuredOutput structured_output(const ResponseFormat& format);
// Returns the output format of a chat: calls if the tool choice forces them, else the response
// format. If that format is JSON and the model may choose to call tools, the answer may be either.
StructuredOutput structured_output(const ChatRequest& request, ToolSyntax syntax,
                                   Thinking thinking);

}  // namespace neuronmm::serve
