#pragma once
// The marks around the JSON of tool calls, for the syntaxes that differ only in them. The parser
// (json_call_parser.cc), the grammar of forced calls (protocol/structured_output.h) and the choice
// of the syntax (template_traits.h) read this table.

#include <string>

#include "serve/output/template_traits.h"

namespace neuronmm::serve {

struct CallMarks {
  std::string begin = "<tool_call>", end = "</tool_call>";
  // Whether one pair of marks has a list of calls ([{...}, {...}]), else one call.
  bool is_list = false;
  // The keys of a call's object. Without `name_key`, the name itself is the key of the arguments.
  std::string name_key = "name", arguments_key = "arguments";
};

// Returns the marks of a syntax; those of Hermes if the syntax has none in this table.
CallMarks call_marks(ToolSyntax syntax);
// Returns whether calls of this syntax are JSON between marks.
bool has_call_marks(ToolSyntax syntax);

}  // namespace neuronmm::serve
