#pragma once
// Calls of tools in the text of an answer. What is told does not depend on how the text is cut into
// pieces, and every byte is told as soon as it is certain what it is.

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "serve/protocol/chat_tools.h"
#include "serve/protocol/output_delta.h"
#include "serve/protocol/template_traits.h"

namespace neuronmm::serve {

// What is no call is content. A call that breaks off or is malformed before its arguments have
// begun is content too, as it stands; behind that, its arguments are as far as they are JSON and
// the rest is content. White space between calls, and before the first, is nothing.
class ToolCallParser {
 public:
  virtual ~ToolCallParser() = default;
  void push(std::string_view text, OutputDeltas& out) {
    for (const char c : text) push_byte(c, out);
  }
  virtual void finish(OutputDeltas& out) = 0;  // no more text comes
  int64_t calls() const { return calls_; }     // told so far

 protected:
  virtual void push_byte(char c, OutputDeltas& out) = 0;
  int64_t calls_ = 0;
};

// nullptr where the syntax has no parser. Only where a call has no mark that begins it (Llama), it
// has to name one of the tools; elsewhere a model may make up one, as clients have to expect.
std::unique_ptr<ToolCallParser> make_tool_call_parser(ToolSyntax syntax, const ToolList& tools);

std::unique_ptr<ToolCallParser> make_hermes_parser();
std::unique_ptr<ToolCallParser> make_llama_parser(std::set<std::string, std::less<>> names);
std::unique_ptr<ToolCallParser> make_mistral_parser();
std::unique_ptr<ToolCallParser> make_xml_parser(ToolList tools);

}  // namespace neuronmm::serve
