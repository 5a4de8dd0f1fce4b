#pragma once
// Finds tool calls in the text of an answer. There is one parser per ToolSyntax, and OutputParser
// uses them. The result does not depend on how the text is cut into pieces, and every byte is
// passed on as soon as its meaning is certain.

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "serve/output/call_marks.h"
#include "serve/output/output_delta.h"
#include "serve/output/template_traits.h"
#include "serve/requests/chat_tools.h"

namespace neuronmm::serve {

// The interface of the parsers. Text outside of calls is content. A call that ends early or is
// malformed before its arguments have begun is content too, unchanged. If the fault comes after
// that point, the arguments end there and the rest is content. White space between calls, and
// before the first call, is dropped.
class ToolCallParser {
 public:
  virtual ~ToolCallParser() = default;
  void push(std::string_view text, OutputDeltas& out) {
    for (const char c : text) push_byte(c, out);
  }
  virtual void finish(OutputDeltas& out) = 0;  // returns the rest, after the last text
  int64_t calls() const { return calls_; }     // calls found so far

 protected:
  virtual void push_byte(char c, OutputDeltas& out) = 0;
  int64_t calls_ = 0;
};

// Returns the parser of a syntax; nullptr if the syntax has none. A call without a mark must name
// one of the tools, because nothing else distinguishes it from other JSON. With a mark, a model may
// call a function that does not exist, and clients must expect that.
std::unique_ptr<ToolCallParser> make_tool_call_parser(ToolSyntax syntax, const ToolList& tools);

// Create the parsers of the single syntaxes.
std::unique_ptr<ToolCallParser> make_json_call_parser(CallMarks marks,
                                                      std::set<std::string, std::less<>> names);
std::unique_ptr<ToolCallParser> make_llama_parser(const ToolList& tools);
std::unique_ptr<ToolCallParser> make_mistral_parser();

}  // namespace neuronmm::serve
