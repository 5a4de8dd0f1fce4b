#pragma once
// The shape that an answer has to have, for those who make a grammar of it (TokenConstraint).

#include <string>
#include <vector>

#include "serve/protocol/chat_request.h"
#include "serve/protocol/prompt.h"
#include "serve/protocol/template_traits.h"

namespace neuronmm::serve {

// begin call (between call)* end, with
// call = before_name NAME before_arguments ARGUMENTS after_arguments,
// where NAME is one of the functions' and ARGUMENTS a JSON object of its schema. Without `several`
// there is one call. All but the two in capitals is literal; special tokens stand as their text.
struct ToolCallFormat {
  std::string begin, before_name, before_arguments, after_arguments, between, end;
  std::vector<Tool> functions;
  bool several = false;
};

struct StructuredOutput {
  enum class Kind {
    kText,        // any
    kJsonObject,  // any JSON object
    kJsonSchema,  // JSON of `schema`
    kPattern,     // what the regular expression `pattern` matches from end to end
    kToolCalls,   // as `calls` says
  };
  Kind kind = Kind::kText;
  Json schema = {};
  std::string pattern = {};
  // Of kToolCalls. Of JSON: what the answer may be instead, if there are functions.
  ToolCallFormat calls = {};
  // Before what has a shape the answer may think: kOptional: one <think>...</think>, or nothing.
  // kOpened: up to </think>. White space may follow.
  Thinking thinking = Thinking::kNone;
  std::string param = {};  // the field that asks for the shape, for errors
};

// Calls that must be made, or may be beside a response format of JSON, are held to their schemas,
// which text between tags cannot be: a model of kXml then writes them as JSON, between the tags
// that it knows.
ToolSyntax call_syntax(ToolSyntax of_model, const ChatRequest& request);

// How a model of this syntax calls these functions.
ToolCallFormat tool_call_format(ToolSyntax syntax, std::vector<Tool> functions, bool several);

StructuredOutput structured_output(const ResponseFormat& format);
// What the tool choice says, else the response format; where that is JSON, or calls of tools that
// the model may choose.
StructuredOutput structured_output(const ChatRequest& request, ToolSyntax syntax,
                                   Thinking thinking);

}  // namespace neuronmm::serve
