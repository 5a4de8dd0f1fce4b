#pragma once
// Writes tool calls as a model of each family writes them, with the spaces of its chat template.

#include <string>
#include <vector>

#include "serve/output/template_traits.h"
#include "serve/requests/json_body.h"

namespace neuronmm::serve {

struct WrittenCall {
  std::string name;
  Json arguments = Json::object();
};

// Returns the text of the calls.
std::string written_calls(ToolSyntax syntax, const std::vector<WrittenCall>& calls);
// Returns the form of a value in Python, as repr() writes it.
std::string written_python(const Json& value);
// Returns all syntaxes in which a model can write calls.
const std::vector<ToolSyntax>& all_call_syntaxes();

}  // namespace neuronmm::serve
