// Renders templates from standard input for a comparison with jinja2. A line of the input is
//   {"template": "...", "context": {...}, "now": seconds}
// and its answer is {"text": "...", "said": [[begin, end], ...]} or {"error": "..."}.

#include <iostream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "text/jinja/template.h"

namespace {

using Json = nlohmann::ordered_json;
using neuronmm::text::jinja::Template;
using neuronmm::text::jinja::Variable;

Json answer(const Json& request) {
  const auto parsed = Template::parse(request["template"].get<std::string>(), "template");
  if (!parsed.ok()) return {{"error", parsed.error().message}};
  std::vector<Variable> variables;
  for (const auto& [name, value] : request["context"].items()) {
    const bool messages = name == "messages";
    variables.push_back(
        {name, &value, messages ? Variable::Origin::kMessages : Variable::Origin::kProgram});
  }
  const auto text = parsed->render(variables, {.limits = {}, .now = request.value("now", 0)});
  if (!text.ok()) return {{"error", text.error().message}};
  Json from_messages = Json::array();
  for (const auto& span : text->from_messages) from_messages.push_back({span.begin, span.end});
  return {{"text", text->bytes}, {"said", from_messages}};
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << answer(Json::parse(line)).dump(-1, ' ', false, Json::error_handler_t::replace)
              << '\n';
  }
}
