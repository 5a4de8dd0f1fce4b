#include "text/jinja/template.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "text/jinja/analysis.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/json.h"
#include "text/jinja/parser.h"

namespace neuronmm::text::jinja {
namespace {

// Returns true if a role is a plain name, which cannot be a special token by itself. Templates put
// roles into special tokens ("<|" + role + "|>"), so plain roles have to be parsed.
bool is_plain_name(const std::string& role) {
  return std::ranges::all_of(role, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == ' ';
  });
}

Result<Value> message_from_json(Runtime& runtime, const nlohmann::ordered_json& message) {
  if (!message.is_object()) return from_json(runtime, message, true);
  DictBuilder dict(runtime);
  for (const auto& [key, field] : message.items()) {
    const bool role =
        key == "role" && field.is_string() && is_plain_name(field.get_ref<const std::string&>());
    NMM_ASSIGN(const Value name, make_text(runtime, key, true));
    NMM_ASSIGN(Value value, from_json(runtime, field, !role));
    NMM_TRY(dict.set(name, std::move(value)));
  }
  return dict.take();
}

Result<Value> value_of(Runtime& runtime, const Variable& variable) {
  if (variable.origin != Variable::Origin::kMessages || !variable.value->is_array())
    return from_json(runtime, *variable.value, variable.origin != Variable::Origin::kProgram);
  Values messages;
  for (const auto& message : *variable.value) {
    NMM_ASSIGN(messages.emplace_back(), message_from_json(runtime, message));
  }
  return make_list(runtime, std::move(messages));
}

}  // namespace

struct Template::State {
  std::string name;
  Statements statements;
  Scope scope;
};

Template::Template() : state_(std::make_unique<State>()) {}
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

Result<Template> Template::parse(std::string_view source, std::string name) {
  Template result;
  State& state = *result.state_;
  state.name = std::move(name);
  const auto located = [&](const Error& error) { return fail("{}:{}", state.name, error.message); };
  auto statements = parse_template(source);
  if (!statements.ok()) return located(statements.error());
  state.statements = std::move(statements).value();
  auto scope = analyze(state.statements);
  if (!scope.ok()) return located(scope.error());
  state.scope = std::move(scope).value();
  return result;
}

Result<Text> Template::render(const std::vector<Variable>& variables,
                              const RenderOptions& options) const {
  Runtime runtime(options.limits, options.now);
  Variables values;
  for (const Variable& variable : variables) {
    const auto value = value_of(runtime, variable);
    if (!value.ok()) return fail("{}: {}", variable.name, value.error().message);
    values.insert_or_assign(variable.name, *value);
  }
  Evaluator evaluator(runtime, values, state_->name);
  NMM_ASSIGN(const TextPtr text, evaluator.render(state_->statements, state_->scope));
  return *text;
}

}  // namespace neuronmm::text::jinja
