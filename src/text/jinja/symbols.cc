#include "text/jinja/symbols.h"

#include <algorithm>
#include <iterator>

#include "text/jinja/children.h"

namespace neuronmm::text::jinja {

using Start = Scope::Variable::Start;

bool Symbols::contains(const std::string& name) const {
  return starts_.contains(name) || outer_contains(name);
}

void Symbols::load(const std::string& name) {
  if (!contains(name)) starts_[name] = Start::kContext;
}

void Symbols::store(const std::string& name) {
  stores_.insert(name);
  starts_.emplace(name, outer_contains(name) ? Start::kOuter : Start::kUnset);
}

void Symbols::add_parameter(const std::string& name) {
  stores_.insert(name);
  starts_[name] = Start::kParameter;
}

// A name that only some branches assign begins with its value from outside on all of them.
void Symbols::merge_branches(const std::vector<Symbols>& branches) {
  std::set<std::string> stored_in_some;
  for (const Symbols& branch : branches) {
    std::ranges::set_difference(branch.stores_, stores_,
                                std::inserter(stored_in_some, stored_in_some.end()));
  }
  for (const Symbols& branch : branches) {
    for (const auto& [name, start] : branch.starts_) starts_[name] = start;
    stores_.insert(branch.stores_.begin(), branch.stores_.end());
  }
  for (const std::string& name : stored_in_some)
    starts_[name] = outer_contains(name) ? Start::kOuter : Start::kContext;
}

void Symbols::visit(const Statements& statements) {
  for (const auto& statement : statements) visit(*statement);
}

void Symbols::visit(const Expression& expression) {
  if (const auto* name = std::get_if<Name>(&expression.node)) load(name->name);
  for_each_child(expression, [this](const Expression& child) { visit(child); });
}

void Symbols::visit(const Target& target, bool as_parameters) {
  if (const auto* name = std::get_if<Name>(&target.to)) {
    as_parameters ? add_parameter(name->name) : store(name->name);
  } else if (const auto* attribute = std::get_if<Target::Attribute>(&target.to)) {
    load(attribute->object.name);
  } else {
    for (const Target& part : std::get<std::vector<Target>>(target.to)) visit(part, as_parameters);
  }
}

// Bodies with a scope of their own are not visited.
void Symbols::visit(const Statement& statement) {
  std::visit(
      [this]<typename Node>(const Node& node) {
        if constexpr (std::is_same_v<Node, Output>) {
          for (const ExpressionPtr& value : node.values) visit(*value);
        } else if constexpr (std::is_same_v<Node, Assign>) {
          visit(*node.value);
          visit(node.target);
        } else if constexpr (std::is_same_v<Node, AssignBlock>) {
          visit(node.target);
        } else if constexpr (std::is_same_v<Node, For>) {
          visit(*node.items);
        } else if constexpr (std::is_same_v<Node, If>) {
          visit_if(node, 0);
        } else if constexpr (std::is_same_v<Node, Macro>) {
          store(node.name.name);
        } else if constexpr (std::is_same_v<Node, CallBlock>) {
          visit(*node.call);
        } else if constexpr (std::is_same_v<Node, FilterBlock>) {
          visit(*node.filter);
        } else if constexpr (std::is_same_v<Node, With>) {
          for (const auto& [target, value] : node.variables) visit(*value);
        }
      },
      statement.node);
}

// Jinja treats all `elif` parts as one branch, and each of them as an `if` inside it.
void Symbols::visit_if(const If& chain, size_t first) {
  visit(*chain.branches[first].first);
  std::vector<Symbols> branches(3, *this);
  branches[0].visit(chain.branches[first].second);
  if (first == 0) {
    for (size_t i = 1; i < chain.branches.size(); ++i) branches[1].visit_if(chain, i);
    branches[2].visit(chain.otherwise);
  }
  merge_branches(branches);
}

Scope Symbols::scope() const {
  Scope scope;
  for (const auto& [name, start] : starts_) {
    const bool outer = start == Start::kOuter;
    scope.variables.push_back({name, start, outer ? outer_->find(name) : VariableAddress{}});
  }
  return scope;
}

std::optional<size_t> Symbols::slot(const std::string& name) const {
  const auto found = starts_.find(name);
  if (found == starts_.end()) return std::nullopt;
  return static_cast<size_t>(std::distance(starts_.begin(), found));
}

VariableAddress Symbols::find(const std::string& name) const {
  if (const auto own = slot(name)) return {0, *own};
  VariableAddress address = outer_->find(name);
  ++address.scopes_out;
  return address;
}

}  // namespace neuronmm::text::jinja
