#pragma once
// Parses and renders a template in one call, for tests.

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "text/jinja/template.h"

namespace neuronmm::text::jinja {

// The variable "messages" counts as coming from users, and all others come from the program.
inline Result<Text> render(const std::string& source, const nlohmann::ordered_json& context = {},
                           const RenderOptions& options = {}) {
  NMM_ASSIGN(const Template parsed, Template::parse(source, "test"));
  std::vector<Variable> variables;
  for (const auto& [name, value] : context.items()) {
    const auto origin =
        name == "messages" ? Variable::Origin::kMessages : Variable::Origin::kProgram;
    variables.push_back({name, &value, origin});
  }
  return parsed.render(variables, options);
}

inline std::string text_or_error(const std::string& source,
                                 const nlohmann::ordered_json& context = {},
                                 const RenderOptions& options = {}) {
  const auto text = render(source, context, options);
  return text.ok() ? text->bytes : "error: " + text.error().message;
}

}  // namespace neuronmm::text::jinja
