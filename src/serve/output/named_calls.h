#pragma once
// The marks of calls that write the function's name before the JSON of its arguments. The parser
// (named_call_parser.cc) and the grammar of forced calls (protocol/structured_output.cc) use them.

#include <memory>
#include <string>
#include <vector>

#include "serve/output/template_traits.h"

namespace neuronmm::serve {

class ToolCallParser;

struct NamedCallMarks {
  std::string begin;                     // before the first call
  std::string call_end;                  // after each call; empty if there is none
  std::string next;                      // before a further call; empty if that is `begin`
  std::string end;                       // after all calls
  std::vector<std::string> around_name;  // texts between `begin` and the arguments
  // The mark before and after strings, if the arguments are no JSON but {city:"Rome"} with this
  // mark for quotes.
  std::string quote = {};
  bool has_number = false;  // the number of the call follows the name, as in "f:0"
  // The texts of forced calls between `begin` and the name, between the name and the arguments,
  // between the arguments and `end`, and between two calls.
  std::string before_name = {}, before_arguments = {}, after_arguments = {}, between = {};
};

// Returns the marks of a syntax for which has_named_calls() holds.
NamedCallMarks named_call_marks(ToolSyntax syntax);
bool has_named_calls(ToolSyntax syntax);
std::unique_ptr<ToolCallParser> make_named_call_parser(NamedCallMarks marks);

}  // namespace neuronmm::serve
