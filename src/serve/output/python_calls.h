#pragma once
// The marks of calls that are written as Python: [f(city="Rome"), g()]. The parser
// (python_call_parser.cc) and the choice of the syntax (template_traits.h) use them.

#include <memory>
#include <string>
#include <vector>

#include "serve/output/template_traits.h"
#include "serve/requests/chat_tools.h"

namespace neuronmm::serve {

class ToolCallParser;

// The marks before and after calls.
struct PythonCallMarks {
  std::string begin, end;
};

// Returns the marks that models of a syntax use; empty if the calls are not Python.
std::vector<PythonCallMarks> python_call_marks(ToolSyntax syntax);

// Creates the parser. Calls may also stand at the beginning of an answer without a mark. They must
// then name one of the tools and, outside of a list, their arguments.
std::unique_ptr<ToolCallParser> make_python_call_parser(std::vector<PythonCallMarks> marks,
                                                        ToolList tools);

}  // namespace neuronmm::serve
